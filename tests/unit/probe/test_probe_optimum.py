"""Goodput as a share of the path program's optimum, for the workflow that is judged by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hawser.engine.source import read
from hawser.probe.optimum import shares
from hawser.spec.units import Duration
from hawser.spec.workflow import Scenario
from hawser.store.sample import Sample

WORKFLOWS = Path(__file__).parents[3] / "workflows"


def scenario(*settings: str) -> Scenario:
    return read(WORKFLOWS / "controller-paths.yaml", list(settings)).workflow.variants[0].scenario


def goodput(name: str, value: float) -> Sample:
    return Sample(
        measurement=name, metric="goodput", unit="Mbit/s", value=value, direction="forward"
    )


def test_what_everybody_gets_of_what_they_want() -> None:
    """Each pair wants 9 Mbit/s, and with transit there is room for it."""
    found = scenario()
    names = list(found.measurements)
    samples = [goodput(name, 4.5 * (1 + at)) for at, name in enumerate(names)]
    made = shares(found, names, samples)
    assert [each.value for each in made] == pytest.approx([0.5, 1.0, 1.5])
    assert [each.subject for each in made] == ["b1-b2", "b3-b4", "b5-b6"]
    assert {(each.metric, each.unit, each.kind) for each in made} == {
        ("optimum_share", "ratio", "summary")
    }


def test_more_than_the_network_carries_is_judged_by_what_it_carries() -> None:
    """A pair that wants more gets what its ports carry, 20 Mbit/s, but for 0.1 of idle pairs."""
    found = scenario("measurements.poor-1-2.rate=100 Mbit/s")
    (made,) = shares(found, ["poor-1-2"], [goodput("poor-1-2", 10.0)])
    assert made.value == pytest.approx(0.5, rel=0.05)


def test_no_share_where_the_optimum_is_not_known() -> None:
    found = scenario()
    names, samples = list(found.measurements), [goodput("poor-1-2", 9.0)]
    assert shares(found.model_copy(update={"controller": None}), names, samples) == []
    late = tuple(each.model_copy(update={"at": Duration(20)}) for each in found.events)
    assert shares(found.model_copy(update={"events": late}), names, samples) == []
