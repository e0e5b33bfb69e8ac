"""What a report finds in a run."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import synthetic
from hawser.report.build import build
from hawser.report.collect import headline
from hawser.report.model import Report
from hawser.report.words import SURE, TIMES
from hawser.spec.workflow import Assertion, Reference, Variant, Workflow
from hawser.store import Bundle, RunWriter, Sample


def run(
    folder: Path,
    workflow: Workflow,
    values: dict[str, list[float]],
    state: str = "done",
    metric: str = "goodput",
) -> Report:
    """A run of one metric with given values: variant's last label -> one value a repeat."""
    ticks = synthetic.clock()
    plan = synthetic.manifest(workflow)
    with RunWriter.create(folder, plan, workflow, {}, lambda: next(ticks)) as writer:
        for place in plan.order:
            value = values[next(reversed(place.variant.values()), "all")][place.repeat - 1]
            with writer.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add([goodput(value).model_copy(update={"metric": metric})])
        if state != "running":
            writer.finish(state)  # type: ignore[arg-type]  # the test names a state
    return build(Bundle.open(writer.path))


def goodput(value: float) -> Sample:
    return Sample(
        measurement="tcp", metric="goodput", unit="Mbit/s", direction="forward", value=value
    )


STEADY = {"ipomp": [30.0, 31, 29], "ipip-best": [15.0, 15.1, 14.9], "ipip-direct": [4.0, 4.1, 3.9]}


def test_rows_hold_the_valid_runs_of_each_variant(
    quickstart: Report, quickstart_path: Path
) -> None:
    bundle = Bundle.open(quickstart_path)
    for row in quickstart.headline:
        expected = [
            sample.value
            for trial in bundle.trials
            if trial.record.valid and trial.record.variant == row.variant
            for sample in trial.samples()
            if (sample.metric, sample.kind) == ("goodput", "summary")
        ]
        assert list(row.values) == expected
        assert row.summary.median == pytest.approx(statistics.median(expected))
    assert sum(row.summary.n for row in quickstart.headline) == 17


def test_rows_follow_the_workflow(quickstart: Report) -> None:
    order = [(row.variant["transport"], row.measurement, row.metric) for row in quickstart.rows]
    names = ("ipomp", "ipip-best", "ipip-direct")
    metrics = (("rtt", "rtt"), ("rtt", "ping_loss"), ("tcp", "goodput"), ("tcp", "retransmissions"))
    assert order == [(name, *metric) for name in names for metric in metrics]
    assert {row.metric for row in quickstart.headline} == {"goodput"}
    assert {row.measurement for row in quickstart.passive} == {"passive"}


@pytest.mark.parametrize(
    ("metrics", "about"),
    [
        (("ping_loss", "malicious_flows_blocked", "goodput"), "goodput"),
        (("ping_loss", "malicious_flows_blocked"), "malicious_flows_blocked"),
        (("ping_loss", "rtt"), "ping_loss"),
    ],
)
def test_a_run_is_about_its_goodput_else_what_was_blocked_else_its_first_metric(
    quickstart: Report, metrics: tuple[str, ...], about: str
) -> None:
    (row, *_) = quickstart.rows
    made = [row.model_copy(update={"metric": metric}) for metric in metrics]
    assert [each.metric for each in headline(made)] == [about]


def test_the_void_run_is_listed_with_its_reason(quickstart: Report) -> None:
    (excluded,) = quickstart.excluded
    assert (excluded.trial, excluded.reason) == (3, "iperf3: connection reset")
    assert quickstart.valid


def test_references_stand_beside_their_rows(table1: Report) -> None:
    found = {
        (row.variant["rates"], row.variant["scheme"]): row.reference.value
        for row in table1.rows
        if row.reference is not None
    }
    assert found["1:2:4:33", "mptcp-end-to-end"] == 17.3
    assert len(found) == 12
    assert table1.unmatched == ()


@pytest.mark.parametrize("metric", ["throughput", "conditional_throughput"])
def test_a_conditional_throughput_is_judged_by_either_name(tmp_path: Path, metric: str) -> None:
    """Trials of 60 s give `throughput`, shorter ones `conditional_throughput`."""
    wanted = "conditional_throughput"
    workflow = synthetic.quickstart(3).model_copy(
        update={
            "reference": (Reference(metric=wanted, value=52, unit="Mbit/s", source="there"),),
            "assertions": (Assertion(metric=wanted, at_least=40),),
        }
    )
    values = {labels: [50.0, 51.0, 49.0] for labels in STEADY}
    report = run(tmp_path, workflow, values, metric=metric)
    assert report.unmatched == ()
    assert {row.reference.value for row in report.rows if row.reference} == {52}
    assert [checked.verdict for checked in report.outcomes[0].checked] == ["holds"] * 3


def test_a_reference_without_a_row_is_not_lost(tmp_path: Path) -> None:
    references = (
        Reference(metric="goodput", value=1, unit="Mbit/s", source="general"),
        Reference(
            variant={"transport": "ipomp"}, metric="goodput", value=2, unit="Mbit/s", source="own"
        ),
        Reference(metric="goodput", value=3, unit="Gbit/s", source="another unit"),
        Reference(metric="rtt", value=4, unit="ms", source="not measured"),
    )
    workflow = synthetic.quickstart(3).model_copy(update={"reference": references})
    report = run(tmp_path, workflow, STEADY)
    found = [row.reference.source for row in report.headline if row.reference is not None]
    assert found == ["own", "general", "general"]
    assert len(report.unmatched) == 2
    assert "another unit" in report.unmatched[0]


def test_finding_of_one_group_is_computed(tmp_path: Path) -> None:
    report = run(tmp_path, synthetic.quickstart(3), STEADY)
    first, second = report.finding
    assert first.startswith(
        f"ipomp had the highest goodput, 30 Mbit/s (median of 3 runs): 2.00{TIMES} ({SURE}1.87"
    )
    assert f"that of ipip-best and 7.50{TIMES} ({SURE}" in first
    assert first.endswith("that of ipip-direct.")
    assert "75\N{NO-BREAK SPACE}% of the 40 Mbit/s" in second


def test_finding_says_when_the_first_two_are_too_close(tmp_path: Path) -> None:
    values = STEADY | {"ipip-best": [29.5, 30.9, 29.9]}
    report = run(tmp_path, synthetic.quickstart(3), values)
    assert "These runs show no difference between ipomp and ipip-best." in report.finding


def test_two_runs_give_a_ratio_and_no_verdict(tmp_path: Path) -> None:
    values = {name: found[:2] for name, found in STEADY.items()}
    report = run(tmp_path, synthetic.quickstart(2), values)
    lead = "ipomp had the highest goodput, 30.5 Mbit/s (median of 2 runs): 2.03"
    assert report.finding[0].startswith(lead)
    assert not any("no difference" in sentence for sentence in report.finding)
    assert {one.effect.verdict for one in report.comparisons} == {None}
    assert "Some variants have only 2 runs" in report.warnings[0]


def test_finding_of_groups(table1: Report) -> None:
    text = " ".join(table1.finding)
    assert "The difference is largest for 1:2:4:33" in text
    assert "that of ipip-direct" in text
    assert "of 12 published values" in text


def test_smaller_is_better_for_round_trip_times(tmp_path: Path) -> None:
    rtt = {"metric": "rtt", "unit": "ms", "measurement": "rtt"}
    workflow = synthetic.quickstart(3)
    ticks, plan = synthetic.clock(), synthetic.manifest(workflow)
    with RunWriter.create(tmp_path, plan, workflow, {}, lambda: next(ticks)) as writer:
        for place in plan.order:
            value = STEADY[place.variant["transport"]][place.repeat - 1]
            with writer.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add([Sample(**rtt, value=value)])
        writer.finish("done")
    report = build(Bundle.open(writer.path))
    assert report.finding[0].startswith("ipip-direct had the lowest round-trip time, 4 ms")


def test_assertions_are_held_against_each_row(tmp_path: Path) -> None:
    asserted = (
        Assertion(variant={"transport": "ipomp"}, metric="goodput", at_least=29, at_most=31),
        Assertion(metric="goodput", statistic="max", at_most=16),
        Assertion(metric="jitter", at_most=1),
    )
    workflow = synthetic.quickstart(3).model_copy(update={"assertions": asserted})
    holds, fails, unmeasured = run(tmp_path, workflow, STEADY).outcomes
    assert holds.ok
    assert [(one.variant["transport"], one.ok) for one in fails.checked] == [
        ("ipomp", False), ("ipip-best", True), ("ipip-direct", True),
    ]  # fmt: skip
    assert not fails.ok
    assert not unmeasured.ok
    assert holds.text == "median goodput of ipomp: at least 29 and at most 31 Mbit/s"


def test_assertions_hold_variants_against_each_other(tmp_path: Path) -> None:
    against = {"transport": "ipip-best"}
    asserted = (
        Assertion(metric="goodput", relative_to=against, at_least=1),
        Assertion(variant=against, metric="rtt", relative_to={"transport": "ipomp"}, at_most=0.01),
        Assertion(metric="goodput", relative_to={"transport": "nobody"}, at_least=0),
    )
    workflow = synthetic.quickstart(3).model_copy(update={"assertions": asserted})
    report = run(tmp_path, workflow, STEADY)
    best = STEADY["ipip-best"]
    multiples = {
        name: statistics.geometric_mean(a / b for a, b in zip(values, best, strict=True))
        for name, values in STEADY.items()
    }
    holds, fails, unmeasured = report.outcomes
    found = {one.variant["transport"]: one.value for one in holds.checked}
    assert found == pytest.approx(multiples)
    assert [one.verdict for one in holds.checked] == ["holds", "holds", "fails"]
    assert holds.text == "median goodput of every variant: at least 1 times ipip-best"
    assert not fails.ok
    assert not unmeasured.ok
    assert all(one.value is None for one in unmeasured.checked)


def test_assertions_hold_a_whole_axis_against_another(tmp_path: Path) -> None:
    against = {"transport": "ipip-best"}
    asserted = (
        Assertion(metric="goodput", relative_to=against, across="transport", at_least=1),
        Assertion(
            metric="goodput", relative_to={"transport": "nobody"}, across="transport", at_least=0
        ),
    )
    workflow = synthetic.quickstart(3).model_copy(update={"assertions": asserted})
    report = run(tmp_path, workflow, STEADY)
    mean, unmeasured = report.outcomes
    levels = {name: statistics.geometric_mean(values) for name, values in STEADY.items()}
    wanted = statistics.geometric_mean(levels.values()) / levels["ipip-best"]
    assert [(one.variant, one.value) for one in mean.checked] == [({}, pytest.approx(wanted))]
    assert mean.text == (
        "median goodput of every variant, geometric mean over transport: at least 1 times ipip-best"
    )
    assert not unmeasured.ok
    assert [one.value for one in unmeasured.checked] == [None]


def test_counters_that_explain_nothing_are_left_out_but_not_those_asserted(tmp_path: Path) -> None:
    def counter(metric: str, subject: str, value: float) -> Sample:
        return Sample(
            measurement="passive", metric=metric, unit="packets", subject=subject, value=value
        )

    counters = [
        counter("drop_queue", "path:p9:forward", 7),
        counter("drop_down", "path:p9:forward", 0),
        counter("rx_drop_device", "port:h1.lan", 0),
        counter("tx_bytes", "path:p9:forward", 5e6),
        counter("tx_bytes", "port:h1.lan", 5e6),
        counter("too_many", "daemon:gw1:strangers", 3),
    ]
    asserted = (Assertion(metric="rx_drop_device", at_most=0),)
    workflow = synthetic.quickstart(2).model_copy(update={"assertions": asserted})
    report = build(Bundle.open(synthetic.write(tmp_path, workflow, extra=counters)))
    shown = {(row.metric, row.subject) for row in report.passive}
    assert ("drop_queue", "path:p9:forward") in shown
    assert ("tx_bytes", "path:p9:forward") in shown
    assert ("rx_drop_device", "port:h1.lan") in shown
    assert not shown & {("drop_down", "path:p9:forward"), ("tx_bytes", "port:h1.lan")}
    assert not any(metric == "too_many" for metric, _ in shown)
    assert report.passed


def test_a_drift_over_the_run_is_a_warning(tmp_path: Path) -> None:
    workflow = synthetic.quickstart(6)
    plan = synthetic.manifest(workflow)
    with RunWriter.create(tmp_path, plan, workflow, {}) as writer:
        for place in plan.order:
            level = STEADY[place.variant["transport"]][0]
            with writer.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add([goodput(level * (1 + 0.02 * place.trial))])
        writer.finish("done")
    report = build(Bundle.open(writer.path))
    assert any("tcp goodput rose over the run by about" in text for text in report.warnings)
    (order,) = report.order
    assert order.check.n == 18


def test_a_run_cut_short_is_reported_and_not_valid(tmp_path: Path) -> None:
    report = run(tmp_path, synthetic.quickstart(3), STEADY, state="running")
    assert report.state == "incomplete"
    assert report.problems == ("the run is incomplete",)
    assert len(report.headline) == 3


def test_a_run_without_any_valid_trial_has_a_report(tmp_path: Path) -> None:
    workflow = synthetic.quickstart(1)
    path = synthetic.write(tmp_path, workflow, void=dict.fromkeys((1, 2, 3), "lost"))
    report = build(Bundle.open(path))
    assert report.finding == ("There is no valid run, so there is nothing to report.",)
    assert not report.valid
    assert not report.passed


def test_a_workflow_without_variants_has_one_row_a_metric(tmp_path: Path) -> None:
    one = synthetic.quickstart(3)
    variants = (Variant(labels={}, scenario=one.variants[0].scenario),)
    workflow = one.model_copy(update={"variants": variants, "assertions": ()})
    report = run(tmp_path, workflow, {"all": [1.0, 2.0, 3.0]})
    assert report.finding[0] == "Goodput: 2 Mbit/s (median of 3 runs)."
    assert report.comparisons == ()
