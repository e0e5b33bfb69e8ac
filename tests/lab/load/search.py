"""What a throughput search needs: a wire that lets only some frames through, a node at each end.

 hawserld-PID-N-a      hawserld-PID-N-m        hawserld-PID-N-b
+----------------+    +------------------+    +----------------+
| gen 10.21.5.1  |----| m0 faults()  m1  |----| sink 10.21.5.2 |
+----------------+    +------------------+    +----------------+
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hawser.driver import roles
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab.plan import NodePlan
from hawser.probe.base import Context
from hawser.probe.search.probe import ThroughputProbe
from hawser.spec.measurement import Throughput
from hawser.store.sample import Sample
from lab.load.wire import Faults, Wire
from lab.namespace import run

FRAME = 60
"""Bytes."""


class FakeLab:
    """The part of a lab that probes look at, over namespaces that are really there."""

    name = "wire"

    def __init__(self, wire: Wire, folder: Path) -> None:
        ends = {"a": wire.sender, "b": wire.receiver}
        plan = {end: NodePlan(name=end, role="host", interfaces=()) for end in ends}
        self.nodes = {
            end: NamespaceNode(end, name, plan[end], folder) for end, name in ends.items()
        }
        self.plan = self
        self.hawserd = roles.hawserd()
        self.addresses = {"a": "10.21.5.1", "b": "10.21.5.2"}


@contextmanager
def addressed() -> Iterator[Wire]:
    """A faulty wire whose ends have addresses and know each other."""
    with Wire.faulty() as wire:
        for namespace, port, address, mac in (
            (wire.sender, "gen", "10.21.5.1/24", "02:00:00:00:00:01"),
            (wire.receiver, "sink", "10.21.5.2/24", "02:00:00:00:00:02"),
        ):
            run("ip", "-n", namespace, "link", "set", port, "address", mac)
            run("ip", "-n", namespace, "address", "add", address, "dev", port)
        run("ip", "netns", "exec", wire.receiver, "ethtool", "-K", "sink", "gro", "on")
        # the wire passes load frames only, so neighbours cannot be resolved
        neighbour = ["neighbour", "replace", "10.21.5.2", "lladdr", "02:00:00:00:00:02"]
        run("ip", "-n", wire.sender, *neighbour, "dev", "gen")
        yield wire


def faults(wire: Wire) -> Faults:
    """The program in the middle of a wire."""
    assert wire.faults is not None
    return wire.faults


def context(wire: Wire, raw: Path) -> Context:
    """What a probe `m` on the wire is given."""
    lab: Any = FakeLab(wire, raw)
    return Context(lab=lab, measurement="m", raw=raw, started=lambda: None)


def throughput(**fields: object) -> ThroughputProbe:
    usual: dict[str, object] = {
        "probe": "throughput",
        "from": "a",
        "to": "b",
        "sizes": {"fixed": f"{FRAME} B"},
        "trial": "500 ms",
        "drain": "50 ms",
        "resolution": "1 %",
        "max_load": "96 Mbit/s",
        "catch_up": "10 s",
    }
    return ThroughputProbe(Throughput.model_validate({**usual, **fields}))


def values(samples: list[Sample]) -> dict[str, float]:
    return {sample.metric: sample.value for sample in samples}
