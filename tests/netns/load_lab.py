"""Ports for `hawserd load`, made with `ip` alone, and the wires between them.

Direct (`Wire.direct`):

   hawserld-PID-N-a            hawserld-PID-N-b
  +----------------+          +----------------+
  | gen            |----------| sink           |
  | 10.21.5.1/24   |          | 10.21.5.2/24   |
  +----------------+          +----------------+

With faults (`Wire.faulty`): an XDP program in the middle passes frames from m0 to m1.

   hawserld-PID-N-a      hawserld-PID-N-m      hawserld-PID-N-b
  +----------------+    +----------------+    +----------------+
  | gen            |----| m0 faults() m1 |----| sink           |
  +----------------+    +----------------+    +----------------+
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_numbers = itertools.count()

FAULTS = {"none": 0, "drop": 1, "swap": 2, "double": 3, "police": 4}


def hawserd() -> Path:
    """The daemon: $HAWSERD, else the newest build."""
    chosen = os.environ.get("HAWSERD")
    builds = [ROOT / "target" / kind / "hawserd" for kind in ("release", "debug")]
    found = [Path(chosen)] if chosen else [build for build in builds if build.exists()]
    if not found:
        raise FileNotFoundError("hawserd is not built: run `cargo build --release`")
    return max(found, key=lambda build: build.stat().st_mtime)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


@functools.cache
def _faults_object() -> Path:
    """The compiled program."""
    made = Path(tempfile.gettempdir()) / f"hawserld-{os.getpid()}-faults.o"
    source = Path(__file__).with_name("load_faults.bpf.c")
    headers = f"/usr/include/{os.uname().machine}-linux-gnu"
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-idirafter", headers]
    run("clang", *options, "-c", str(source), "-o", str(made))
    return made


@dataclass(frozen=True)
class Faults:
    """The program in the middle, pinned."""

    pin: Path

    def set(self, fault: str, seed: int = 0, rate: int = 1, depth: int = 1) -> None:
        """What it does from now on, with its counters at zero."""
        self._write("config", struct.pack("=QQQQ", FAULTS[fault], seed, rate, depth))
        self._write("state", bytes(32))

    def counts(self) -> tuple[int, int]:
        """Frames it saw, and faults it made."""
        command = ["bpftool", "-j", "map", "lookup", "pinned", str(self.pin / "state")]
        found = json.loads(run(*command, "key", "0", "0", "0", "0"))
        frames, faults, _, _ = struct.unpack("=QQQQ", bytes(int(b, 16) for b in found["value"]))
        return frames, faults

    def _write(self, name: str, value: bytes) -> None:
        octets = [str(octet) for octet in value]
        path = str(self.pin / name)
        run("bpftool", "map", "update", "pinned", path, "key", "0", "0", "0", "0", "value", *octets)


@dataclass(frozen=True)
class Wire:
    """Two ports: `gen` in one namespace, `sink` in another."""

    sender: str
    receiver: str
    faults: Faults | None = None

    @classmethod
    @contextlib.contextmanager
    def direct(cls) -> Iterator[Wire]:
        with _namespaces("a", "b") as (a, b):
            run(
                "ip",
                "-n",
                a,
                "link",
                "add",
                "name",
                "gen",
                "type",
                "veth",
                "peer",
                "name",
                "sink",
                "netns",
                b,
            )
            _up(a, "gen", "10.21.5.1/24")
            _up(b, "sink", "10.21.5.2/24")
            yield cls(a, b)

    @classmethod
    @contextlib.contextmanager
    def faulty(cls) -> Iterator[Wire]:
        with _namespaces("a", "m", "b") as (a, m, b):
            run(
                "ip",
                "-n",
                a,
                "link",
                "add",
                "name",
                "gen",
                "type",
                "veth",
                "peer",
                "name",
                "m0",
                "netns",
                m,
            )
            run(
                "ip",
                "-n",
                m,
                "link",
                "add",
                "name",
                "m1",
                "type",
                "veth",
                "peer",
                "name",
                "sink",
                "netns",
                b,
            )
            for namespace, port in ((a, "gen"), (m, "m0"), (m, "m1"), (b, "sink")):
                _up(namespace, port)
            pin = Path("/sys/fs/bpf") / m
            try:
                run(
                    "bpftool",
                    "prog",
                    "loadall",
                    str(_faults_object()),
                    str(pin),
                    "pinmaps",
                    str(pin),
                )
                _attach(m, pin)
                yield cls(a, b, Faults(pin))
            finally:
                for name in sorted(pin.glob("*")) if pin.exists() else []:
                    name.unlink()
                if pin.exists():
                    pin.rmdir()

    def config(self, **stream: object) -> dict[str, Any]:
        """A trial over the wire with one stream; what is given replaces what is usual."""
        return {
            "version": 1,
            "run": next(_numbers) % 65536,
            "send": {
                "port": {"interface": "gen", "netns": self.sender},
                "catch_up_us": 10_000_000,
                "traffic": {"streams": [one_stream(**stream)]},
            },
            "receive": {"port": {"interface": "sink", "netns": self.receiver}},
        }


def one_stream(**stream: object) -> dict[str, Any]:
    """A stream of one flow."""
    usual: dict[str, Any] = {
        "name": "s",
        "ethernet": {"destination": "02:00:00:00:00:02"},
        "source": {"first": "10.21.5.32"},
        "target": {"first": "10.22.5.204"},
        "source_port": {"first": 10000},
        "target_port": {"first": 10500},
        "sizes": {"fixed": 60},
        "rate": {"frames_per_s": 50_000},
        "amount": {"frames": 2000},
    }
    return {**usual, **stream}


def published_flows() -> dict[str, Any]:
    """The 100 flows of the published SD-WAN measurements."""
    return {
        "source": {"first": "10.21.5.32", "count": 5},
        "target": {"first": "10.22.5.204", "count": 5},
        "source_port": {"first": 10000, "count": 100},
        "target_port": {"first": 10500, "count": 100},
        "flows": 100,
    }


def load(config: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
    """Run one trial; its result.

    Raises:
        RuntimeError: the daemon failed.
    """
    done = start(config, namespace)
    if done.returncode:
        raise RuntimeError(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def start(
    config: Mapping[str, Any], namespace: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one trial to its end, however it ends."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        command = [*inside, str(hawserd()), "load", "--config", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _up(namespace: str, port: str, address: str | None = None) -> None:
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
    if address:
        run("ip", "-n", namespace, "address", "add", address, "dev", port)
    run("ip", "-n", namespace, "link", "set", port, "up")


def _attach(namespace: str, pin: Path) -> None:
    inside = ["nsenter", f"--net=/run/netns/{namespace}"]
    links = json.loads(run("ip", "-n", namespace, "-j", "link", "show", "m1"))
    index = [str(octet) for octet in struct.pack("=I", links[0]["ifindex"])]
    for name, key in (("out", "0"), ("twice", "0"), ("twice", "1")):
        path = str(pin / name)
        update = ["map", "update", "pinned", path, "key", key, "0", "0", "0", "value", *index]
        run(*inside, "bpftool", *update)
    for port, program in (("m0", "faults"), ("m1", "pass")):
        run(*inside, "ip", "link", "set", port, "xdpdrv", "pinned", str(pin / program))


@contextlib.contextmanager
def _namespaces(*labels: str) -> Iterator[Sequence[str]]:
    prefix = f"hawserld-{os.getpid()}-{next(_numbers)}"
    names = [f"{prefix}-{label}" for label in labels]
    made: list[str] = []
    try:
        for name in names:
            run("ip", "netns", "add", name)
            made.append(name)
        yield names
    finally:
        for name in made:
            run("ip", "netns", "del", name)
