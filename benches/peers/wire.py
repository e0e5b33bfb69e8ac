"""A faulty wire: an XDP program that passes frames from one port of a namespace to another.

It drops, swaps or duplicates some frames, or limits the rate. It counts the faults it makes, and a
meter at the far end must find the same number.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.obtain import PEERS

FAULTS = {"none": 0, "drop": 1, "swap": 2, "double": 3, "police": 4}

_PINS = Path("/sys/fs/bpf")


@dataclass(frozen=True)
class Faults:
    """Controls the program through its pinned maps."""

    pin: Path

    def set(self, fault: str, seed: int = 0, rate: int = 1, depth: int = 1) -> None:
        """Select the fault to make from now on, and reset the counters.

        Args:
            fault: one of `FAULTS`.
            seed: determines which frames are affected.
            rate: frames per second that `police` lets through.
            depth: depth of its token bucket in frames.
        """
        self._write("config", struct.pack("=QQQQ", FAULTS[fault], seed, rate, depth))
        self._write("state", bytes(32))

    def counts(self) -> tuple[int, int]:
        """Number of frames seen and of faults made."""
        command = ["bpftool", "-j", "map", "lookup", "pinned", str(self.pin / "state")]
        found = json.loads(_run(*command, "key", "0", "0", "0", "0"))
        frames, faults, _, _ = struct.unpack("=QQQQ", bytes(int(b, 16) for b in found["value"]))
        return frames, faults

    def _write(self, name: str, value: bytes) -> None:
        octets = [str(octet) for octet in value]
        path = str(self.pin / name)
        update = ["map", "update", "pinned", path, "key", "0", "0", "0", "0", "value"]
        _run("bpftool", *update, *octets)


@contextlib.contextmanager
def inserted(namespace: str, entry: str, out: str) -> Iterator[Faults]:
    """Put the program between two ports of a namespace; remove its pins afterwards.

    Raises:
        RuntimeError: the program cannot be compiled or loaded; the text says why.
    """
    pin = _PINS / namespace
    try:
        load = ["bpftool", "prog", "loadall", str(_object()), str(pin)]
        _run(*load, "pinmaps", str(pin))
        _attach(namespace, pin, entry, out)
        yield Faults(pin)
    finally:
        for name in sorted(pin.glob("*")) if pin.exists() else []:
            name.unlink()
        if pin.exists():
            pin.rmdir()


def _attach(namespace: str, pin: Path, entry: str, out: str) -> None:
    inside = ["nsenter", f"--net=/run/netns/{namespace}"]
    links = json.loads(_run("ip", "-n", namespace, "-j", "link", "show", out))
    index = [str(octet) for octet in struct.pack("=I", links[0]["ifindex"])]
    for name, key in (("out", "0"), ("twice", "0"), ("twice", "1")):
        update = ["map", "update", "pinned", str(pin / name), "key", key, "0", "0", "0"]
        _run(*inside, "bpftool", *update, "value", *index)
    for port, program in ((entry, "faults"), (out, "pass")):
        _run(*inside, "ip", "link", "set", port, "xdpdrv", "pinned", str(pin / program))


@functools.cache
def _object() -> Path:
    return compiled(Path(__file__).with_suffix(".bpf.c"))


def compiled(source: Path) -> Path:
    """Compile an XDP program; return the object file.

    Raises:
        RuntimeError: the compiler failed; the text says why.
    """
    made = PEERS / source.with_suffix("").with_suffix(".o").name
    made.parent.mkdir(parents=True, exist_ok=True)
    headers = f"/usr/include/{os.uname().machine}-linux-gnu"
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-idirafter", headers]
    new = made.with_suffix(f".{os.getpid()}")
    _run("clang", *options, "-c", str(source), "-o", str(new))
    return new.rename(made)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout
