"""Runs that go on until their medians are precise."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from engine_fakes import FakeDriver, Silent, bench, workflow

import synthetic
from hawser.engine import run as running
from hawser.engine.plan import plan
from hawser.engine.precision import precise
from hawser.engine.run import Runner
from hawser.engine.schedule import more, order, repeats
from hawser.overlay.lab.facts import Facts
from hawser.probe.base import Context
from hawser.report.build import build
from hawser.spec.units import Ratio
from hawser.spec.workflow import Until, Workflow
from hawser.store import Bundle, RunWriter, Sample
from hawser.store.machine import this_machine
from hawser.store.manifest import Environment

UNTIL = Until(until=Ratio(0.02), metric="rtt", least=6, limit=20)


def wanted(*variants: str) -> Workflow:
    return workflow(*variants, repeat=UNTIL.least).model_copy(update={"until": UNTIL})


def carried_out(folder: Path, spread: float, *variants: str) -> Bundle:
    values = itertools.cycle([10.0, 10 + spread, 10 - spread])
    asked = wanted(*variants)
    writer = running.create(
        asked,
        plan(asked, Facts()),
        Environment(machine=this_machine()),
        runs=folder,
        sources={},
        command=["hawser", "run"],
        started=synthetic.START,
    )

    def measure(_: Context) -> float:
        return next(values)

    with writer:
        equipment = bench(FakeDriver(folder / "labs"), measure)
        return Runner(writer, plan(asked, Facts()), equipment, Silent()).run()


def test_a_precise_run_ends_a_third_after_its_first_look(tmp_path: Path) -> None:
    bundle = carried_out(tmp_path, 0.01, "a", "b")
    assert len(bundle.trials) == 2 * 8
    assert bundle.problems() == ()
    trials = [place.trial for place in bundle.manifest.order]
    assert trials == list(range(1, 17))
    assert bundle.manifest.order == order([{"which": "a"}, {"which": "b"}], 8, 1)


def test_an_imprecise_one_ends_at_the_limit_and_says_so(tmp_path: Path) -> None:
    bundle = carried_out(tmp_path, 5.0, "a")
    assert len(bundle.trials) == 20
    (warning,) = [text for text in build(bundle).warnings if "wider" in text]
    assert warning.startswith("rtt of a: the interval of the median is wider than")
    assert warning.endswith("after 20 runs")


@pytest.mark.parametrize(
    ("done", "precise_from", "expected"),
    [
        (0, 99, 6), (6, 99, 8), (8, 99, 11), (11, 99, 15), (15, 99, 20), (20, 99, 20),
        (6, 6, 8), (8, 6, 8), (8, 8, 11), (11, 8, 11), (20, 20, 20),
    ],
)  # fmt: skip
def test_it_is_looked_at_with_a_third_more_each_time(
    done: int, precise_from: int, expected: int
) -> None:
    assert repeats(done, UNTIL, lambda n: n >= precise_from) == expected


def test_blocks_that_are_added_are_those_of_a_longer_order() -> None:
    labels = [{"v": name} for name in "abc"]
    planned = order(labels, 2, 7)
    retried = (*planned, planned[0].model_copy(update={"trial": 7}))
    added = more(retried, labels, 3, 7)
    assert [place.trial for place in added] == [8, 9, 10]
    assert [place.variant for place in added] == [p.variant for p in order(labels, 3, 7)[6:]]


def test_what_never_happened_is_not_precise(tmp_path: Path) -> None:
    """All trials cut off at the same time looked like an interval of no width."""
    late = [Sample(measurement="tcp", metric="rtt", unit="ms", value=1000.0, censored=True)]
    ticks, plans = synthetic.clock(), synthetic.manifest(asked := synthetic.quickstart(6))
    with RunWriter.create(tmp_path, plans, asked, {}, lambda: next(ticks)) as writer:
        for place in plans.order:
            with writer.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add(late)
        writer.finish("done")
    assert not precise(Bundle.open(writer.path), UNTIL, 6)
