"""The trial is the sample: events within it, what never happened, blocks, several comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import synthetic
from hawser.report.build import build
from hawser.report.compare import compare
from hawser.report.model import Report
from hawser.report.render import render
from hawser.report.words import TIMES
from hawser.spec.workflow import Assertion, Labels, Variant, Workflow
from hawser.store import Bundle, RunWriter, Sample
from hawser.store.manifest import Session

Make = Callable[[Labels, int], Sequence[Sample]]


def written(
    folder: Path, workflow: Workflow, make: Make, late: frozenset[int] = frozenset()
) -> Report:
    """A run whose samples are given by variant and repeat; trials of these repeats were late."""
    ticks, plan = synthetic.clock(), synthetic.manifest(workflow)
    with RunWriter.create(folder, plan, workflow, {}, lambda: next(ticks)) as writer:
        for place in plan.order:
            with writer.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add(make(place.variant, place.repeat))
                if place.repeat in late:
                    trial.void("the WAN emulator was late", late=True)
        writer.finish("done")
    return build(Bundle.open(writer.path))


def sample(metric: str, value: float, *, unit: str = "Mbit/s", censored: bool = False) -> Sample:
    return Sample(
        measurement="tcp",
        metric=metric,
        unit=unit,
        direction="forward",
        value=value,
        censored=censored,
    )


def failover(value: float, *, censored: bool = False) -> Sample:
    return sample("failover_time", value, unit="ms", censored=censored)


def test_events_of_a_trial_are_one_value(tmp_path: Path) -> None:
    """Five trials of four events were reported as n = 20."""
    report = written(
        tmp_path,
        synthetic.quickstart(5),
        lambda _, repeat: [failover(100.0 * repeat + event) for event in (1, 2, 4, 90)],
    )
    row = report.rows[0]
    assert row.summary.n == 5
    assert row.values[:1] == (100.0 * row.runs[0].repeat + 3,)
    assert row.runs[0].extremes == (100.0 * row.runs[0].repeat + 1, 100.0 * row.runs[0].repeat + 90)


def test_the_largest_is_that_of_all_events(tmp_path: Path) -> None:
    limit = Assertion(metric="failover_time", statistic="max", at_most=300)
    workflow = synthetic.quickstart(3).model_copy(update={"assertions": (limit,)})
    report = written(tmp_path, workflow, lambda _, __: [failover(v) for v in (100, 120, 310)])
    assert [one.value for one in report.outcomes[0].checked] == [310] * 3
    assert report.outcomes[0].verdict == "fails"


def test_what_never_happened_fails_any_bound(tmp_path: Path) -> None:
    """A flow that never recovered had the time until the end, and passed `at_most: 2000`."""
    limit = Assertion(metric="failover_time", at_most=2000)
    workflow = synthetic.quickstart(5).model_copy(update={"assertions": (limit,)})
    report = written(tmp_path, workflow, lambda _, __: [failover(1000, censored=True)])
    (outcome,) = report.outcomes
    assert outcome.verdict == "fails"
    assert not report.passed
    assert report.rows[0].summary.open
    assert "5 of 5 runs ended before traffic recovered" in report.warnings[0]
    for form in ("html", "md", "text"):
        assert "> 1000" in render(report, form).decode().replace("&gt;", ">")  # type: ignore[arg-type]
    assert b"Infinity" not in render(report, "json")


def test_a_censored_event_leaves_a_lower_bound_of_the_median(tmp_path: Path) -> None:
    """No report could be made."""
    limits = (
        Assertion(metric="failover_time", statistic="max", at_most=2000),
        Assertion(metric="failover_time", statistic="min", at_most=200),
    )
    report = written(
        tmp_path,
        synthetic.quickstart(3).model_copy(update={"assertions": limits}),
        lambda _, __: [failover(100), failover(1000, censored=True)],
    )
    assert [outcome.verdict for outcome in report.outcomes] == ["fails", "holds"]
    assert b"Infinity" not in render(report, "json")
    assert {(run.value, run.censored) for run in report.rows[0].runs} == {(550.0, True)}


def test_censored_runs_are_not_compared(tmp_path: Path) -> None:
    """Five trials cut off after 1 s were shown to be slower than five of 0.2 s: by 5 times."""
    paths = []
    for name, value, censored in (("a", 200.0, False), ("b", 1000.0, True)):
        folder = tmp_path / name
        folder.mkdir()
        written(
            folder,
            synthetic.quickstart(5),
            lambda _, n, v=value, c=censored: [failover(v + n, censored=c)],  # type: ignore[misc]
        )
        paths.append(next(folder.iterdir()))
    found = compare([Bundle.open(path) for path in paths])
    assert [line.effects for line in found.lines] == [(None,)] * 3


def test_a_slow_repeat_does_not_hide_a_difference(tmp_path: Path) -> None:
    level = {1: 20.0, 2: 12.0, 3: 26.0, 4: 16.0, 5: 19.0}
    factor = {"ipomp": 1.05, "ipip-best": 1.0, "ipip-direct": 0.5}

    def make(variant: Labels, repeat: int) -> list[Sample]:
        value = level[repeat] * factor[variant["transport"]]
        return [sample("goodput", value * (1 + 0.004 * (repeat % 3)))]

    report = written(tmp_path, synthetic.quickstart(5), make)
    nearest = report.comparisons[0]
    assert nearest.effect.clear
    assert nearest.effect.paired
    assert nearest.effect.n == 5


def test_variants_are_compared_with_the_baseline(tmp_path: Path) -> None:
    workflow = synthetic.quickstart(3).model_copy(
        update={"baseline": {"transport": "ipip-direct"}, "assertions": ()}
    )
    values = {"ipomp": 30.0, "ipip-best": 15.0, "ipip-direct": 4.0}

    def make(variant: Labels, repeat: int) -> list[Sample]:
        return [sample("goodput", values[variant["transport"]] * (1 + 0.01 * repeat))]

    report = written(tmp_path, workflow, make)
    found = [(c.variant["transport"], c.against["transport"]) for c in report.comparisons]
    assert found == [("ipomp", "ipip-direct"), ("ipip-best", "ipip-direct")]
    assert report.finding[0].startswith(
        "ipomp had the highest goodput, 30.6 Mbit/s (median of 3 runs): 7.50" + TIMES
    )
    assert report.finding[1].startswith("ipip-best: 3.75" + TIMES)
    assert all(
        c.effect.adjusted == pytest.approx(2 * (c.effect.p or 0)) for c in report.comparisons
    )


def test_the_leader_is_corrected_for_all_pairs(tmp_path: Path) -> None:
    noise = {"ipomp": (30.0, 33, 36), "ipip-best": (29.0, 31, 35), "ipip-direct": (28.0, 32, 34)}
    report = written(
        tmp_path,
        synthetic.quickstart(3),
        lambda variant, repeat: [sample("goodput", noise[variant["transport"]][repeat - 1])],
    )
    nearest = report.comparisons[0].effect
    assert len(report.comparisons) == 2
    assert nearest.p is not None
    assert nearest.p <= 0.07
    assert nearest.adjusted == pytest.approx(3 * nearest.p, rel=1)
    assert "These runs show no difference between ipomp and" in " ".join(report.finding)


def test_a_variant_without_data_is_named(tmp_path: Path) -> None:
    report = written(
        tmp_path,
        synthetic.quickstart(3),
        lambda v, n: [sample("goodput", 9.0 + n)] if v["transport"] != "ipomp" else [],
    )
    assert "There are no results for ipomp." in report.finding


def test_an_axis_needs_all_its_values(tmp_path: Path) -> None:
    """The mean over the rest passed for the mean over all."""
    over = Assertion(
        metric="goodput", relative_to={"scheme": "ipip-best"}, variant={"scheme": "tcp-ipomp"},
        across="rates", at_least=1,
    )  # fmt: skip
    workflow = synthetic.table1(3).model_copy(update={"assertions": (over,), "reference": ()})

    def make(variant: Labels, repeat: int) -> list[Sample]:
        lost = variant == {"rates": "2:4:8:26", "scheme": "tcp-ipomp"}
        return [] if lost else [sample("goodput", synthetic.expected(variant) + 0.1 * repeat)]

    (checked,) = written(tmp_path, workflow, make).outcomes[0].checked
    assert (checked.verdict, checked.reason) == ("undecided", "no data for rates 2:4:8:26")
    assert not checked.ok


def test_an_axis_with_nothing_at_one_value_has_no_mean(tmp_path: Path) -> None:
    over = Assertion(
        metric="goodput", relative_to={"scheme": "ipip-best"}, variant={"scheme": "tcp-ipomp"},
        across="rates", at_least=1,
    )  # fmt: skip
    workflow = synthetic.table1(3).model_copy(update={"assertions": (over,), "reference": ()})

    def make(variant: Labels, repeat: int) -> list[Sample]:
        dead = variant == {"rates": "2:4:8:26", "scheme": "tcp-ipomp"}
        value = 0.0 if dead else synthetic.expected(variant) + 0.1 * repeat
        return [sample("goodput", value)]

    (checked,) = written(tmp_path, workflow, make).outcomes[0].checked
    assert (checked.verdict, checked.reason) == ("undecided", "no ratio for rates 2:4:8:26")


@pytest.mark.parametrize(
    ("repeats", "at_least", "verdict", "ok"),
    [(3, 3, "holds", True), (3, 5, "fails", False), (1, 3, "undecided", True)],
)
def test_standard_deviations_are_compared(
    tmp_path: Path, repeats: int, at_least: float, verdict: str, *, ok: bool
) -> None:
    """One trial has none, which is no reason to fail."""
    wider = Assertion(
        variant={"transport": "ipomp"}, metric="goodput", statistic="sd",
        relative_to={"transport": "ipip-best"}, at_least=at_least,
    )  # fmt: skip
    workflow = synthetic.quickstart(repeats).model_copy(
        update={"assertions": (wider,), "reference": ()}
    )

    def make(variant: Labels, repeat: int) -> list[Sample]:
        return [sample("goodput", 50 + repeat * (4 if variant["transport"] == "ipomp" else 1))]

    (checked,) = written(tmp_path, workflow, make).outcomes[0].checked
    assert (checked.verdict, checked.ok) == (verdict, ok)
    assert checked.value == (pytest.approx(4) if repeats > 1 else None)
    assert checked.reason == ("" if repeats > 1 else "1 trial, needs 2")


def lengths(*values: str) -> Workflow:
    """A workflow with one axis of numbers, and an assertion that goodput is linear in it."""
    whole = synthetic.quickstart(3)
    scenario = whole.variants[0].scenario
    return whole.model_copy(
        update={
            "variants": tuple(Variant(labels={"length": v}, scenario=scenario) for v in values),
            "assertions": (Assertion(metric="goodput", linear_in="length", at_least=0.98),),
            "reference": (),
        }
    )


@pytest.mark.parametrize(
    ("curve", "verdict"),
    [(lambda x: 5 + 2 * x, "holds"), (lambda x: 90 - 3 * x, "holds"), (lambda x: x**4, "fails")],
)
def test_a_line_is_judged_by_its_r_squared(
    tmp_path: Path, curve: Callable[[float], float], verdict: str
) -> None:
    """Through the medians: one trial of each is far off."""
    workflow = lengths("1", "2", "4", "8", "11")

    def make(variant: Labels, repeat: int) -> list[Sample]:
        off = 40 if repeat == 2 else 0
        return [sample("goodput", curve(float(variant["length"])) + off)]

    outcome = written(tmp_path, workflow, make).outcomes[0]
    assert outcome.text == "R^2 of median goodput over length of every variant: at least 0.980"
    (checked,) = outcome.checked
    assert checked.verdict == verdict
    assert checked.variant == {}
    assert checked.value is not None
    assert (checked.value > 0.999) == (verdict == "holds")


@pytest.mark.parametrize(
    ("values", "slope", "reason"),
    [
        (("1", "2"), 1, "2 points, a line needs 3"),
        (("1", "2", "3"), 0, "all values are equal"),
    ],
)
def test_no_line_is_undecided(
    tmp_path: Path, values: Sequence[str], slope: float, reason: str
) -> None:
    def make(variant: Labels, _: int) -> list[Sample]:
        return [sample("goodput", 7 + slope * float(variant["length"]))]

    (checked,) = written(tmp_path, lengths(*values), make).outcomes[0].checked
    assert (checked.verdict, checked.reason) == ("undecided", reason)


@pytest.mark.parametrize(
    ("undecided", "at_least", "passed"),
    [
        ("estimate", 29.5, True),
        ("estimate", 30.5, False),
        ("pass", 30.5, True),
        ("fail", 29.5, False),
    ],
)
def test_the_workflow_says_whether_undecided_passes(
    tmp_path: Path, undecided: str, at_least: float, passed: bool
) -> None:
    floor = Assertion(metric="goodput", variant={"transport": "ipomp"}, at_least=at_least)
    workflow = synthetic.quickstart(3).model_copy(
        update={"assertions": (floor,), "undecided": undecided}
    )
    report = written(tmp_path, workflow, lambda _, n: [sample("goodput", 28.0 + n)])
    assert report.outcomes[0].verdict == "undecided"
    assert report.passed is passed


def test_fewer_trials_than_asked_for_decide_nothing(tmp_path: Path) -> None:
    floor = Assertion(metric="goodput", variant={"transport": "ipomp"}, at_least=1, min_n=5)
    workflow = synthetic.quickstart(4).model_copy(update={"assertions": (floor,)})
    report = written(tmp_path, workflow, lambda _, n: [sample("goodput", 28.0 + n)])
    (checked,) = report.outcomes[0].checked
    assert (checked.verdict, checked.reason) == ("undecided", "4 trials, needs 5")


@pytest.mark.parametrize(
    ("values", "more", "reason"),
    [
        ({1: 4.0, 2: 0.0, 3: 5.0}, {"relative_to": {"transport": "ipip-best"}}, "some values are"),
        ({1: 4.0}, {"min_n": 1}, "1 trial, needs 2"),
    ],
)
def test_an_undecided_assertion_has_a_reason(
    tmp_path: Path, values: dict[int, float], more: dict[str, object], reason: str
) -> None:
    """One zero in three made "no repeat has positive values"; one trial had no reason."""
    floor = Assertion.model_validate(
        {"metric": "goodput", "variant": {"transport": "ipomp"}, "at_least": 1, **more}
    )
    workflow = synthetic.quickstart(len(values)).model_copy(update={"assertions": (floor,)})

    def make(variant: Labels, repeat: int) -> list[Sample]:
        return [sample("goodput", values[repeat] if variant["transport"] == "ipomp" else 9.0)]

    (checked,) = written(tmp_path, workflow, make).outcomes[0].checked
    assert checked.verdict == "undecided"
    assert checked.reason.startswith(reason)


def test_many_assertions_are_corrected_together(tmp_path: Path) -> None:
    floors = tuple(
        Assertion(metric="goodput", variant={"transport": name}, at_least=27.9)
        for name in ("ipomp", "ipip-best", "ipip-direct") * 4
    )
    values = (28.4, 29.1, 28.9)

    def verdicts(count: int) -> set[str]:
        workflow = synthetic.quickstart(3).model_copy(update={"assertions": floors[:count]})
        made = written(
            tmp_path / str(count), workflow, lambda _, n: [sample("goodput", values[n - 1])]
        )
        return {outcome.verdict for outcome in made.outcomes}

    for count in (1, 12):
        (tmp_path / str(count)).mkdir()
    assert verdicts(12) == {"undecided"}


def test_lateness_voids_only_what_depends_on_delay(tmp_path: Path) -> None:
    def make(_: Labels, repeat: int) -> list[Sample]:
        return [sample("goodput", 10.0 * repeat), sample("loss", float(repeat), unit="%")]

    report = written(tmp_path, synthetic.quickstart(6), make, late=frozenset({6}))
    found = {row.metric: row for row in report.rows if row.variant == {"transport": "ipomp"}}
    assert (found["goodput"].summary.n, found["loss"].summary.n) == (5, 6)
    assert (found["goodput"].summary.median, found["goodput"].with_void) == (30, 35)
    assert found["loss"].with_void is None
    for form in ("html", "md", "text"):
        assert "median with void runs" in render(report, form).decode()  # type: ignore[arg-type]


def test_one_valid_repeat_of_ten_is_no_result(tmp_path: Path) -> None:
    """Such a run was valid."""
    report = written(
        tmp_path,
        synthetic.quickstart(10),
        lambda _, n: [sample("goodput", 30.0 + n)],
        late=frozenset(range(2, 11)),
    )
    assert not report.valid
    assert report.problems[0] == "only 1 of 10 repeats of ipomp have a valid trial"


def test_a_resume_on_another_machine_is_a_warning(tmp_path: Path) -> None:
    workflow = synthetic.quickstart(3)
    report = written(tmp_path, workflow, lambda _, n: [sample("goodput", 30.0 + n)])
    path = next(tmp_path.glob("quickstart-*"))
    first = report.manifest
    session = Session(
        machine=first.machine.model_copy(update={"kernel": "6.19.0"}),
        tools=first.tools,
        kernel=first.kernel,
        started=first.started,
        hawser=first.hawser,
        revision=first.revision,
    )
    with RunWriter.resume(path) as writer:
        writer.update(resumed=(session,))
        writer.finish("done")
    found = build(Bundle.open(path))
    assert "The run was resumed with another machine or kernel" in found.warnings
    assert "Linux 6.19.0" in render(found, "html").decode()
