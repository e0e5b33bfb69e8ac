"""WAN emulators between two namespaces. They add a delay in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.bench import SampleError
from harness.lab import Daemon, Lab, Namespace, until
from harness.obtain import UnavailableError
from hawser.control.client import DaemonClient

DEVICE = "wan0"
_UNOFFLOADED = ("tso", "gso", "gro", "tx-udp-segmentation")


@dataclass(frozen=True)
class Wan:
    """Two namespaces with an emulator between them; `a` reaches `b` at 198.18.0.2."""

    a: Namespace
    b: Namespace
    daemon: Daemon | None = None
    control: Path | None = None

    address = "198.18.0.2"

    def counters(self) -> dict[str, Any] | None:
        """Counters of the emulator, or None if it has none."""
        if self.control is None:
            return None
        return DaemonClient(self.control).counters()


Emulate = Callable[[Lab, float], Wan]
"""Joins two new namespaces with a delay in milliseconds in each direction."""


def bare(lab: Lab, _delay_ms: float) -> Wan:
    """A cable without an emulator."""
    a, b = lab.pair()
    _wire_sized(a, b)
    return Wan(a, b)


def netem(lab: Lab, delay_ms: float) -> Wan:
    """The kernel's emulator at both ends of a cable."""
    wan = bare(lab, delay_ms)
    for end in (wan.a, wan.b):
        end.run(["tc", "qdisc", "add", "dev", DEVICE, "root", "netem", *_netem(delay_ms)])
    return wan


def has_netem() -> None:
    """Check that the kernel has netem.

    Raises:
        UnavailableError: the kernel has no netem.
    """
    with Lab() as lab:
        try:
            netem(lab, 1)
        except SampleError:
            raise UnavailableError("this kernel has no netem (CONFIG_NET_SCH_NETEM)") from None


def hawser(program: str) -> Emulate:
    """`hawserd wan` in a namespace of its own, between two cables."""

    def emulate(lab: Lab, delay_ms: float) -> Wan:
        a, wan, b = (lab.namespace(label) for label in ("a", "wan", "b"))
        for end, address, port in ((a, "198.18.0.1", "w0a"), (b, Wan.address, "w0b")):
            end.ip("link", "add", DEVICE, "type", "veth", "peer", "name", port, "netns", wan.name)
            end.ip("address", "add", f"{address}/24", "dev", DEVICE)
            end.ip("link", "set", DEVICE, "up")
            wan.ip("link", "set", port, "up")
        _wire_sized(a, b)
        control = wan.directory / "wan.sock"
        config = wan.directory / "wan.json"
        config.write_text(json.dumps(_config(control, delay_ms)))
        daemon = wan.start([program, "wan", "--config", str(config)])
        until(control.exists, "the emulator starts", daemons=[daemon])
        return Wan(a, b, daemon, control)

    return emulate


def _config(control: Path, delay_ms: float) -> dict[str, object]:
    paths = [
        {"name": direction, "wire": "w", "direction": direction, "delay_us": delay_ms * 1000}
        for direction in ("forward", "reverse")
    ]
    wires = [{"name": "w", "ends": ["w0a", "w0b"]}]
    return {"version": 1, "control": str(control), "wires": wires, "paths": paths}


def _netem(delay_ms: float) -> list[str]:
    """Options of netem. Its queue holds one second of 1400-byte packets at 1.25 Gbit/s."""
    return ["delay", f"{delay_ms}ms", "limit", "120000"]


def _wire_sized(*ends: Namespace) -> None:
    """Switch off offloads, so that no packet is larger than on a wire."""
    for end in ends:
        features = [word for name in _UNOFFLOADED for word in (name, "off")]
        end.run(["ethtool", "-K", DEVICE, *features])
