"""A wire with faults: an XDP program that passes frames from one port of a namespace to another.

It drops, swaps or doubles some of them, or lets through only so many a second, and counts what it
does: that is what a meter at the end must find.
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
    """The program, pinned."""

    pin: Path

    def set(self, fault: str, seed: int = 0, rate: int = 1, depth: int = 1) -> None:
        """What it does from now on, with its counters at zero.

        Args:
            fault: one of `FAULTS`.
            seed: chooses the frames.
            rate: frames a second that `police` lets through.
            depth: frames of its token bucket.
        """
        self._write("config", struct.pack("=QQQQ", FAULTS[fault], seed, rate, depth))
        self._write("state", bytes(32))

    def counts(self) -> tuple[int, int]:
        """Frames it saw, and faults it made."""
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
    """Put the program between two ports of a namespace; its pins are gone afterwards.

    Raises:
        RuntimeError: it cannot be compiled or loaded; the text says why.
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
    """An XDP program, compiled.

    Raises:
        RuntimeError: it cannot be; the text says why.
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
