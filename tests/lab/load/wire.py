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
import itertools
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.daemon import hawserd
from lab.namespace import Namespaces, run
from lab.waiting import PATIENCE
from peers.wire import Faults, inserted

_numbers = itertools.count()


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
            with inserted(m, "m0", "m1") as faults:
                yield cls(a, b, faults)

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


def over_sockets(wire: Wire, frames_per_s: float, frames: int) -> dict[str, Any]:
    """A trial of eight flows over UDP sockets, frames of three sizes."""
    config = wire.config(
        source={"first": "10.21.5.1"},
        target={"first": "10.21.5.2"},
        source_port={"first": 10000, "count": 8},
        target_port={"first": 10500, "count": 4},
        flows=8,
        sizes={"imix": {"genome": "aadg"}},
        rate={"frames_per_s": frames_per_s},
        amount={"frames": frames},
    )
    for side in ("send", "receive"):
        config[side]["backend"] = "udp"
    return config


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
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE
        )


def tshark(file: Path, *options: str) -> list[str]:
    """tshark's output for a capture, with checksums checked."""
    checks = [f"{protocol}.check_checksum:TRUE" for protocol in ("ip", "udp")]
    preferences = [word for check in checks for word in ("-o", check)]
    command = ["tshark", "-r", str(file), *preferences, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout.splitlines()


def _up(namespace: str, port: str, address: str | None = None) -> None:
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
    if address:
        run("ip", "-n", namespace, "address", "add", address, "dev", port)
    run("ip", "-n", namespace, "link", "set", port, "up")


@contextlib.contextmanager
def _namespaces(*labels: str) -> Iterator[Sequence[str]]:
    with Namespaces("hawserld") as made:
        yield [made.add(label) for label in labels]
