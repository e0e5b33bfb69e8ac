"""A throughput search through a policer: real frames, real daemons, the probe's own generator.

   a                       m: XDP program           b
  +--------------------+  +---------------------+  +---------------------+
  | gen   10.21.5.1/24 |--| m0 -> police -> m1  |--| sink  10.21.5.2/24  |
  +--------------------+  +---------------------+  +---------------------+

What a search concludes must follow from what the wire did to its frames, however late they were.
How close it comes to the policer's rate is tested in tests/timing, the searches themselves on
simulated devices in tests/unit/probe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hawser.probe.base import ProbeError
from hawser.probe.load.probe import LoadProbe
from hawser.spec.measurement import Load
from lab.daemon import hawserd
from lab.load.search import FRAME, addressed, context, faults, throughput, values
from lab.load.wire import Wire
from lab.namespace import run

pytestmark = pytest.mark.root

LIMIT = 1000
"""Frames a second, which every machine sends on time."""
DEPTH = 300
"""0.3 s: a generator that had to wait for its core may send a burst of that length."""
GREATEST = 5000
SECONDS = 0.5
SEARCH = {
    "min_load": "0.1 Mbit/s",
    "max_load": f"{GREATEST * FRAME * 8 / 1e6} Mbit/s",
    "trial": f"{SECONDS} s",
    "drain": "300 ms",
    "backend": "xdp",
}
"""Only a trial's frames cross the wire."""


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with addressed() as wire:
        yield wire


@pytest.fixture(autouse=True)
def _daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAWSERD", str(hawserd()))


@pytest.mark.parametrize("mode", ["rfc2544", "mlr"])
def test_both_modes_find_the_limit(wire: Wire, tmp_path: Path, mode: str) -> None:
    faults(wire).set("police", rate=LIMIT, depth=DEPTH)
    probe = throughput(mode=mode, part_load="50 %", **SEARCH)
    found = values(probe.measure(context(wire, tmp_path)))
    raw = json.loads((tmp_path / "m.throughput.json").read_text())
    (bound,) = raw["found"]
    load = bound["load"]
    # less than the policer lets through was never lost, and the greatest load never came through
    assert 0.95 * LIMIT < load < GREATEST
    assert found["conditional_throughput_frames"] == bound["throughput"] == load
    assert found["conditional_throughput"] == pytest.approx(load * FRAME * 8 / 1e6)
    assert found["delay"] > 0
    assert found["part_load_delay"] > 0
    assert (raw["direction"], raw["counted"], raw["flows"]) == ("forward", "frame", 1)
    assert raw["headroom"] == pytest.approx(load / raw["generator_frames_per_s"])
    the_confirming_trials_are_kept(found, raw, load)
    the_wire_agrees(wire, raw)
    if mode == "rfc2544":
        the_bounds_meet(raw["trials"], load)


def the_confirming_trials_are_kept(
    found: dict[str, float], raw: dict[str, Any], load: float
) -> None:
    """Check the loss at the throughput, and below it, against the frames of those trials."""
    for name, prefix, share in (("throughput", "", 1), ("part_load", "part_load_", 0.5)):
        trial = raw["at"][name]
        assert trial["sent"]["scheduled"] == round(load * share * SECONDS)
        assert trial["lost"] == trial["sent"]["frames"] - trial["received"]["unique"]
        assert found[f"{prefix}loss"] == 100 * trial["lost"] / trial["sent"]["frames"]
    discarded = [*raw["trials"], *raw["at"].values()]
    assert found["trials_repeated"] == sum(len(trial["discarded"]) for trial in discarded)


def the_wire_agrees(wire: Wire, raw: dict[str, Any]) -> None:
    """Check that the trials' counts are those of the wire."""
    passed, dropped = faults(wire).counts()
    trials = raw["trials"]
    sent = [trial["sent"] for trial in trials]
    sent += [trial["sent"]["frames"] for trial in raw["at"].values()]
    lost = sum(trial["lost"] for trial in trials)
    assert lost > 0
    if raw["repeated"] == 0:
        assert sum(sent) == passed
        assert dropped == lost + sum(trial["lost"] for trial in raw["at"].values())


def test_two_goals_on_a_path_that_loses_some_frames(wire: Wire, tmp_path: Path) -> None:
    """Up to the policer nothing is lost, and somewhat above it less than 30 %."""
    faults(wire).set("police", rate=LIMIT, depth=DEPTH)
    probe = throughput(mode="rfc2544", partial_drop="30 %", **SEARCH | {"resolution": "10 %"})
    found = values(probe.measure(context(wire, tmp_path)))
    raw = json.loads((tmp_path / "m.throughput.json").read_text())
    first, second = raw["found"]
    assert found["conditional_throughput_frames"] == first["load"] < second["load"]
    assert found["conditional_pdr_frames"] == pytest.approx(second["load"] * (1 - second["loss"]))
    assert 0 < second["loss"] <= 0.3
    assert found["pdr_loss"] > 0
    assert found["pdr_delay"] > 0


def test_a_search_that_takes_too_long_keeps_its_trials(wire: Wire, tmp_path: Path) -> None:
    faults(wire).set("police", rate=LIMIT, depth=DEPTH)
    probe = throughput(mode="rfc2544", search_limit="2 s", **SEARCH)
    with pytest.raises(ProbeError, match="search_limit of 2 s"):
        probe.measure(context(wire, tmp_path))
    raw = json.loads((tmp_path / "m.throughput.json").read_text())
    assert 0 < len(raw["trials"]) < 5
    assert raw["found"] == []


def the_bounds_meet(trials: list[dict[str, Any]], load: float) -> None:
    """Check that no trial at the load found lost a frame, and that one just above did."""
    assert all(trial["lost"] == 0 for trial in trials if trial["load"] <= load)
    above = [trial for trial in trials if trial["load"] > load]
    assert above
    assert all(trial["lost"] > 0 for trial in above)
    assert min(trial["load"] for trial in above) * (1 - 0.01) <= load


def test_a_path_that_loses_frames_without_being_full(wire: Wire, tmp_path: Path) -> None:
    faults(wire).set("drop")
    for mode in ("rfc2544", "mlr"):
        with pytest.raises(ProbeError, match="loses frames without being full"):
            throughput(mode=mode, min_load="9.6 Mbit/s").measure(context(wire, tmp_path))


def test_a_result_at_the_generators_own_limit_is_refused(wire: Wire, tmp_path: Path) -> None:
    """Loss is allowed, so that a receiver that is too slow for it all does not decide."""
    faults(wire).set("none")
    probe = throughput(mode="rfc2544", max_load=None, backend="packet", loss="99 %")
    with pytest.raises(ProbeError, match="80% of what the generator"):
        probe.measure(context(wire, tmp_path))


def test_a_load_is_accounted_for(wire: Wire, tmp_path: Path) -> None:
    faults(wire).set("drop", seed=7)
    spec = Load.model_validate(
        {
            "probe": "load",
            "from": "a",
            "to": "b",
            "sizes": {"fixed": f"{FRAME} B"},
            "rate": "9.6 Mbit/s",
            "duration": "1 s",
            "catch_up": "10 s",
            "flows": {"count": 3, "target": {"first": "10.21.5.2", "count": 3}},
        }
    )
    before = run("ip", "-n", wire.receiver, "address", "show")
    found = values(LoadProbe(spec).measure(context(wire, tmp_path)))
    assert found["loss"] == pytest.approx(0.1)
    assert (found["duplicated"], found["reordered"], found["unsent"]) == (0, 0, 0)
    assert found["received"] == pytest.approx(9.6 * 0.999, rel=1e-6)
    assert run("ip", "-n", wire.receiver, "address", "show") == before
