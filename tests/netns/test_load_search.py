"""A throughput search through a policer: real frames, real daemons, the probe's own generator.

 hawserld-PID-N-a      hawserld-PID-N-m        hawserld-PID-N-b
+----------------+    +------------------+    +----------------+
| gen 10.21.5.1  |----| m0 police()  m1  |----| sink 10.21.5.2 |
+----------------+    +------------------+    +----------------+
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from load_lab import Wire, hawserd, run

from hawser.node.netns import NamespaceNode
from hawser.overlay.plan import NodePlan
from hawser.probe.base import Context, ProbeError
from hawser.probe.load.probe import LoadProbe
from hawser.probe.search.probe import ThroughputProbe
from hawser.spec.measurement import Load, Throughput
from hawser.store.sample import Sample

pytestmark = [pytest.mark.root, pytest.mark.measures]

LIMIT = 80_000
DEPTH = LIMIT // 100
"""10 ms: a generator that has to wait for its core on a busy machine catches up without loss."""


class FakeLab:
    """The part of a lab that probes look at, over namespaces that are really there."""

    name = "wire"

    def __init__(self, wire: Wire) -> None:
        ends = {"a": wire.sender, "b": wire.receiver}
        plan = {end: NodePlan(name=end, role="host", interfaces=()) for end in ends}
        self.nodes = {end: NamespaceNode(end, name, plan[end]) for end, name in ends.items()}
        self.plan = self
        self.addresses = {"a": "10.21.5.1", "b": "10.21.5.2"}


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire.faulty() as wire:
        for namespace, port, address, mac in (
            (wire.sender, "gen", "10.21.5.1/24", "02:00:00:00:00:01"),
            (wire.receiver, "sink", "10.21.5.2/24", "02:00:00:00:00:02"),
        ):
            run("ip", "-n", namespace, "link", "set", port, "address", mac)
            run("ip", "-n", namespace, "address", "add", address, "dev", port)
        run("ip", "netns", "exec", wire.receiver, "ethtool", "-K", "sink", "gro", "on")
        # the wire passes load frames only: neighbours cannot be asked
        neighbour = ["neighbour", "replace", "10.21.5.2", "lladdr", "02:00:00:00:00:02"]
        run("ip", "-n", wire.sender, *neighbour, "dev", "gen")
        yield wire


@pytest.fixture
def context(wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Context]:
    monkeypatch.setenv("HAWSERD", str(hawserd()))
    lab: Any = FakeLab(wire)
    return lambda: Context(lab=lab, measurement="m", raw=tmp_path, started=lambda: None)


def throughput(**fields: object) -> ThroughputProbe:
    usual: dict[str, object] = {
        "probe": "throughput",
        "from": "a",
        "to": "b",
        "sizes": {"fixed": "60 B"},
        "trial": "500 ms",
        "drain": "50 ms",
        "resolution": "1 %",
        "greatest": "96 Mbit/s",
        "catch_up": "10 s",
    }
    return ThroughputProbe(Throughput.model_validate({**usual, **fields}))


def values(samples: list[Sample]) -> dict[str, float]:
    return {sample.metric: sample.value for sample in samples}


@pytest.mark.parametrize("mode", ["rfc2544", "mlr"])
def test_both_modes_find_the_limit(
    wire: Wire, context: Callable[[], Context], tmp_path: Path, mode: str
) -> None:
    assert wire.faults is not None
    wire.faults.set("police", rate=LIMIT, depth=DEPTH)
    found = values(throughput(mode=mode, part_load="50 %").measure(context()))
    assert found["conditional_throughput_frames"] == pytest.approx(LIMIT, rel=0.03)
    assert found["conditional_throughput"] == pytest.approx(LIMIT * 480 / 1e6, rel=0.03)
    assert 0 < found["delay"] < 50
    assert 0 < found["part_load_delay"] < 50
    kept = json.loads((tmp_path / "m.throughput.json").read_text())
    assert (kept["direction"], kept["counted"], kept["flows"]) == ("forward", "frame", 1)
    assert kept["found"]["trials"] == len(kept["trials"])
    assert kept["headroom"] < 0.8


def test_a_path_that_loses_frames_without_being_full(
    wire: Wire, context: Callable[[], Context]
) -> None:
    assert wire.faults is not None
    wire.faults.set("drop")
    for mode in ("rfc2544", "mlr"):
        with pytest.raises(ProbeError, match="loses frames without being full"):
            throughput(mode=mode, least="9.6 Mbit/s").measure(context())


def test_a_result_at_the_generators_own_limit_is_refused(
    wire: Wire, context: Callable[[], Context]
) -> None:
    assert wire.faults is not None
    wire.faults.set("none")
    probe = throughput(mode="rfc2544", greatest=None, backend="packet")
    with pytest.raises(ProbeError, match="80% of what the generator"):
        probe.measure(context())


def test_a_load_is_accounted_for(wire: Wire, context: Callable[[], Context]) -> None:
    assert wire.faults is not None
    wire.faults.set("drop", seed=7)
    spec = Load.model_validate(
        {
            "probe": "load",
            "from": "a",
            "to": "b",
            "sizes": {"fixed": "60 B"},
            "rate": "9.6 Mbit/s",
            "duration": "1 s",
            "catch_up": "10 s",
            "flows": {"count": 3, "target": {"first": "10.21.5.2", "count": 3}},
        }
    )
    before = run("ip", "-n", wire.receiver, "address", "show")
    found = values(LoadProbe(spec).measure(context()))
    assert found["loss"] == pytest.approx(0.1)
    assert (found["duplicated"], found["reordered"], found["unsent"]) == (0, 0, 0)
    assert found["received"] == pytest.approx(9.6 * 0.999, rel=1e-6)
    assert run("ip", "-n", wire.receiver, "address", "show") == before
