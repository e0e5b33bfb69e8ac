"""Rows from the samples of a bundle: one metric of one variant over its valid runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hawser.report.bounds import bounds
from hawser.report.model import Published, Row, RunValue, TimeSeries
from hawser.spec.metric import names
from hawser.spec.workflow import Labels, Reference, Workflow
from hawser.stats import Summary, summarise
from hawser.store import Bundle, Direction, Sample, TrialRecord, label, of_trial

PASSIVE = "passive"

Key = tuple[str, str, str, Direction, str]
"""Measurement, metric, unit, direction, subject."""

_ABOUT = ("goodput", "malicious_flows_blocked")
"""Metrics that a run is about, if it has them, the first before the others."""


def key(sample: Sample) -> Key:
    """The quantity that a sample belongs to."""
    return sample.measurement, sample.metric, sample.unit, sample.direction, sample.subject


@dataclass
class Collected:
    """The values of one variant."""

    variant: Labels
    runs: dict[Key, list[RunValue]] = field(default_factory=dict)
    """One value per trial, however many events it had."""
    void: dict[Key, list[RunValue]] = field(default_factory=dict)
    """The same of void trials."""
    series: dict[Key, dict[int, list[tuple[float, float]]]] = field(default_factory=dict)
    evidence: dict[str, dict[int, list[Sample]]] = field(default_factory=dict)
    """By measurement and trial."""


def collect(bundle: Bundle) -> list[Collected]:
    """Gather the trials by variant, in the workflow's order.

    Raises:
        BundleError: a trial is damaged.
    """
    found = {label_key(v.labels): Collected(v.labels) for v in bundle.workflow.variants}
    for trial in bundle.trials:
        record = trial.record
        place = found.setdefault(label_key(record.variant), Collected(record.variant))
        samples = trial.samples()
        for what, values in _by_key(samples).items():
            runs = place.runs if record.counts(what[1]) else place.void
            runs.setdefault(what, []).append(_run(record, values))
        for sample in samples if record.valid else ():
            if sample.kind == "evidence":
                trials = place.evidence.setdefault(sample.measurement, {})
                trials.setdefault(record.trial, []).append(sample)
            elif sample.kind == "interval" and sample.time is not None:
                points = place.series.setdefault(key(sample), {})
                points.setdefault(record.trial, []).append((sample.time, sample.value))
    for place in found.values():
        place.runs = {what: _one_a_repeat(runs) for what, runs in place.runs.items()}
    return list(found.values())


def _one_a_repeat(runs: Sequence[RunValue]) -> list[RunValue]:
    """The last of each repeat: one that was late was tried again."""
    last = {run.repeat: run for run in runs}
    return [run for run in runs if last[run.repeat] is run]


def _by_key(samples: Iterable[Sample]) -> dict[Key, list[Sample]]:
    found: dict[Key, list[Sample]] = {}
    for sample in samples:
        if sample.kind == "summary":
            found.setdefault(key(sample), []).append(sample)
    return found


def _run(record: TrialRecord, samples: Sequence[Sample]) -> RunValue:
    value, censored = of_trial(samples)
    events = tuple(math.inf if each.censored else each.value for each in samples)
    return RunValue(
        trial=record.trial,
        repeat=record.repeat,
        value=value,
        censored=censored,
        events=events if len(events) > 1 else (),
    )


USAGE = ("cpu", "memory")
"""Resource usage of daemons and of the machine."""


IPSEC = {
    "sealed_packets": "Encrypted by IPsec functions (function and ESP implementation), packets",
    "opened_packets": "Decrypted by IPsec functions (function and ESP implementation), packets",
}
"""Counters of IPsec functions, with the captions of their tables."""


def shown_counters(found: Iterable[Collected], workflow: Workflow) -> set[Key]:
    """Choose the counters of a report: usage, drops, bytes of each path, and those asserted.

    The others are in `samples.parquet`: a run has hundreds, most of them zero.
    """
    asserted = {assertion.metric for assertion in workflow.assertions}
    return {
        what
        for one in found
        for what, runs in one.runs.items()
        if what[0] == PASSIVE
        and (what[1] in asserted or (_explains(what) and any(run.value for run in runs)))
    }


def _explains(what: Key) -> bool:
    _, metric, _, _, subject = what
    carried = metric == "tx_bytes" and subject.startswith(("path:", "bottleneck:"))
    return metric in USAGE or "drop_" in metric or carried or metric in IPSEC


def label_key(variant: Labels) -> frozenset[tuple[str, str]]:
    """A variant as something that can be looked up."""
    return frozenset(variant.items())


def rows(collected: Collected, workflow: Workflow, counters: set[Key]) -> list[Row]:
    """The rows of a variant; those of its measurements in the order in which they are run.

    Args:
        collected: its values.
        workflow: what was run.
        counters: the passive counters to include.
    """
    scenario = {label_key(v.labels): v.scenario for v in workflow.variants}.get(
        label_key(collected.variant)
    )
    order = list(scenario.measurements) if scenario is not None else []
    made = [
        _row(collected, what, workflow)
        for what in collected.runs
        if what[0] != PASSIVE or what in counters
    ]
    made.sort(key=lambda r: order.index(r.measurement) if r.measurement in order else len(order))
    return [
        row
        if scenario is None or row.metric != "goodput"
        else row.model_copy(
            update={
                "bounds": bounds(scenario, row.measurement, row.direction == "reverse", row.unit)
            }
        )
        for row in made
    ]


def _row(collected: Collected, what: Key, workflow: Workflow) -> Row:
    measurement, metric, unit, direction, subject = what
    variant, runs, void = collected.variant, collected.runs[what], collected.void.get(what)
    matching = [r for r in workflow.reference if _belongs(r, variant, what)]
    reference = max(matching, key=lambda r: len(r.variant), default=None)
    return Row(
        variant=variant,
        measurement=measurement,
        metric=metric,
        unit=unit,
        direction=direction,
        subject=subject,
        summary=_summary(runs),
        runs=tuple(runs),
        with_void=_summary([*runs, *void]).median if void else None,
        reference=reference and Published(value=reference.value, source=reference.source),
    )


def _summary(runs: Sequence[RunValue]) -> Summary:
    return summarise([run.value for run in runs], [run.censored for run in runs])


def _belongs(reference: Reference, variant: Labels, what: Key) -> bool:
    measurement, metric, unit, _, subject = what
    return (
        metric in names(reference.metric)
        and reference.unit == unit
        and reference.measurement in (None, measurement)
        and measurement != PASSIVE
        and not subject
        and covers(reference.variant, variant)
    )


def covers(wanted: Labels, variant: Labels) -> bool:
    """Whether a variant carries all the labels wanted."""
    return wanted.items() <= variant.items()


def unmatched(workflow: Workflow, made: Iterable[Row]) -> tuple[str, ...]:
    """The published values without a row."""
    made = list(made)
    return tuple(
        f"{reference.metric} {label(reference.variant)}: {reference.value:g} {reference.unit}"
        f" ({reference.source})"
        for reference in workflow.reference
        if not any(_belongs(reference, row.variant, _row_key(row)) for row in made)
    )


def headline(made: Iterable[Row]) -> tuple[Row, ...]:
    """The row of each variant that the run is about, of one metric that most tells.

    It is the first goodput, else how many malicious flows were blocked, else the first metric.
    """
    first: dict[frozenset[tuple[str, str]], Row] = {}
    for row in made:
        known = first.get(label_key(row.variant))
        if known is None or _telling(row.metric) < _telling(known.metric):
            first[label_key(row.variant)] = row
    same = {(row.metric, row.unit) for row in first.values()}
    if len(same) > 1:  # a metric that not all variants have is still better than two metrics
        metric = min(same, key=lambda pair: (_telling(pair[0]), pair))
        first = {at: row for at, row in first.items() if (row.metric, row.unit) == metric}
    return tuple(first.values())


def _telling(metric: str) -> int:
    return _ABOUT.index(metric) if metric in _ABOUT else len(_ABOUT)


def time_series(collected: Iterable[Collected], about: Iterable[Row]) -> tuple[TimeSeries, ...]:
    """The time series behind the headline rows."""
    wanted = {label_key(row.variant): _row_key(row) for row in about}
    return tuple(
        TimeSeries(variant=one.variant, trial=trial, points=tuple(sorted(points)))
        for one in collected
        if label_key(one.variant) in wanted
        for trial, points in one.series.get(wanted[label_key(one.variant)], {}).items()
    )


def _row_key(row: Row) -> Key:
    return row.measurement, row.metric, row.unit, row.direction, row.subject
