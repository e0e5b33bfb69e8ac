"""`hawserd load` counts exactly what a wire with faults does, in seeded runs, however fast.

 a                   m: XDP program           b
+----------------+  +---------------------+  +----------------+
| gen            |--| m0 -> faults() -> m1|--| sink           |
| sends          |  | drop, swap, double  |  | counts         |
+----------------+  +---------------------+  +----------------+
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.load.wire import Faults, Wire, load, published_flows

pytestmark = pytest.mark.root

SEEDS = range(20)
FRAMES = 40_000
"""An even number for each of 100 flows, so that every frame has a neighbour."""
RATE = 100_000
"""Frames a second. What is late is made up for (`Wire.config`), so that all are sent."""


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Wire.faulty() as wire:
        yield wire


def trial(wire: Wire, fault: str, seed: int) -> tuple[dict[str, int], int]:
    """What the meter counted over 100 flows, and how many faults there were."""
    faults: Faults | None = wire.faults
    assert faults is not None
    faults.set(fault, seed)
    config = wire.config(
        **published_flows(), rate={"frames_per_s": RATE}, amount={"frames": FRAMES}
    )
    config["drain_ms"] = 200
    result = load(config)
    passed, made = faults.counts()
    assert result["sent"]["unsent"] == 0
    assert passed == result["sent"]["frames"] == FRAMES
    flows = result["received"]["flows"]
    counts = {name: result["received"][name] for name in ("duplicated", "reordered", "late")}
    for name, total in counts.items():
        assert sum(flow[name] for flow in flows) == total
    assert sum(flow["lost"] for flow in flows) == result["lost"]
    return {**counts, "lost": result["lost"], "foreign": result["received"]["foreign"]}, made


NOTHING = {"duplicated": 0, "reordered": 0, "late": 0, "lost": 0, "foreign": 0}


def test_a_good_wire_has_no_faults(wire: Wire) -> None:
    assert trial(wire, "none", 0) == (NOTHING, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_thousandth_frame_is_lost(wire: Wire, seed: int) -> None:
    counted, made = trial(wire, "drop", seed * 37)
    assert made == FRAMES // 1000
    assert counted == {**NOTHING, "lost": made}


@pytest.mark.parametrize("seed", SEEDS)
def test_swapped_neighbours_are_reordered_once(wire: Wire, seed: int) -> None:
    counted, made = trial(wire, "swap", seed)
    assert made > FRAMES // 40
    assert counted == {**NOTHING, "reordered": made}


@pytest.mark.parametrize("seed", SEEDS)
def test_doubled_frames_are_duplicates(wire: Wire, seed: int) -> None:
    counted, made = trial(wire, "double", seed)
    assert made > FRAMES // 20
    assert counted == {**NOTHING, "duplicated": made}
