"""From workflows and runs to what a page about reproductions says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hawser.report import assertions, collect
from hawser.report.model import Checked, Row
from hawser.report.reproduction.model import (
    Chapter,
    Claim,
    Entry,
    Exhibit,
    Outcome,
    Run,
    Source,
    Value,
    Verdict,
)
from hawser.report.words import count
from hawser.spec.data.publications import PUBLICATIONS
from hawser.spec.published import PublishedItem
from hawser.spec.workflow import Assertion, Labels, Reference, Workflow
from hawser.store import Bundle, notes

At = tuple[frozenset[tuple[str, str]], str, str, str, str, str]
"""Variant, measurement, metric, unit, direction, subject."""


@dataclass(frozen=True)
class _Read:
    """A run, judged by what its workflow file publishes and asserts now."""

    run: Run
    rows: tuple[Row, ...]
    checks: tuple[tuple[Checked, ...], ...]
    """By assertion of the file."""


def chapters(sources: Iterable[Source], bundles: Iterable[Bundle]) -> tuple[Chapter, ...]:
    """All publications with their tables and figures.

    A variant's values are those of the newest valid run that has it, of runs with the settings of
    the file as it is before others; only without any such run, those of the newest invalid one.

    Raises:
        BundleError: a run is damaged.
    """
    publishing = [source for source in sources if source.workflow.published]
    reads: dict[str, list[_Read]] = {}
    for bundle in bundles:
        for source in publishing:
            if source.workflow.name == bundle.manifest.workflow and _as_in_file(source, bundle):
                reads.setdefault(source.workflow.name, []).append(_read(source.workflow, bundle))
    for found in reads.values():
        found.sort(key=lambda read: read.run.rank, reverse=True)
    entries = [
        _entry(item, source, reads.get(source.workflow.name, []))
        for source in publishing
        for item in source.workflow.published
    ]
    return tuple(
        Chapter(
            key,
            publication,
            tuple(
                Exhibit(
                    key,
                    name,
                    about,
                    tuple(_of(entries, key, name)),
                    publication.without.get(name, ""),
                )
                for name, about in publication.results.items()
            ),
        )
        for key, publication in PUBLICATIONS.items()
    )


def outcomes(sources: Iterable[Source], bundles: Iterable[Bundle]) -> tuple[Outcome, ...]:
    """All runs of workflows that are there, by workflow and then time.

    Each is judged by the conditions that it was run with: its rates and bounds may be others.

    Raises:
        BundleError: a run is damaged.
    """
    files = {source.workflow.name: source.workflow for source in sources}
    found = [
        _outcome(files[bundle.manifest.workflow], bundle)
        for bundle in bundles
        if bundle.manifest.workflow in files
    ]
    return tuple(sorted(found, key=lambda one: (one.workflow, one.run.started)))


def _as_in_file(source: Source, bundle: Bundle) -> bool:
    """Whether a run has the file's rates and seed."""
    return bundle.workflow.rates == 1 and bundle.workflow.seed == source.workflow.seed


def _outcome(file: Workflow, bundle: Bundle) -> Outcome:
    read = _read(bundle.workflow, bundle)
    checks = [one for checks in read.checks for one in checks if one.value is not None]
    return Outcome(
        workflow=file.name,
        measured=len({collect.label_key(row.variant) for row in read.rows}),
        planned=len(file.variants),
        true=sum(one.ok for one in checks),
        checks=len(checks),
        run=read.run,
    )


def _of(entries: Iterable[Entry], key: str, name: str) -> Iterator[Entry]:
    return (e for e in entries if (e.item.document, e.item.item) == (key, name))


def _read(workflow: Workflow, bundle: Bundle) -> _Read:
    found = collect.collect(bundle)
    metrics = {metric for item in workflow.published for metric in item.metrics}
    counters = {what for one in found for what in one.runs if what[1] in metrics}
    counters |= collect.shown_counters(found, workflow)
    rows = [row for one in found for row in collect.rows(one, workflow, counters)]
    manifest = bundle.manifest
    run = Run(
        run=manifest.run,
        started=manifest.started,
        command=manifest.command,
        machine=f"{manifest.machine.cpu}, {count(manifest.machine.cores, 'core')}",
        notes=tuple(note.text for note in notes.read(bundle.path).notes),
        problems=bundle.problems(),
        void=sum(not trial.record.valid for trial in bundle.trials),
        changed=_changed(workflow, bundle.workflow),
    )
    checks = tuple(outcome.checked for outcome in assertions.outcomes(workflow, rows))
    return _Read(run, tuple(rows), checks)


def _changed(now: Workflow, then: Workflow) -> bool:
    """Whether a variant was run with other settings than it has now, or is no more."""
    known = {collect.label_key(v.labels): v.scenario for v in now.variants}
    return any(known.get(collect.label_key(v.labels)) != v.scenario for v in then.variants)


def _entry(item: PublishedItem, source: Source, reads: Sequence[_Read]) -> Entry:
    workflow = source.workflow
    measured = _measured(item, reads)
    planned = [v.labels for v in workflow.variants if item.variant.items() <= v.labels.items()]
    order = {collect.label_key(labels): index for index, labels in enumerate(planned)}
    values = sorted(
        [*measured.values(), *_missing(item, workflow, measured.values())],
        key=lambda v: (item.metrics.index(v.metric), _place(order, v.variant)),
    )
    runs = {v.run.run: v.run for v in values if v.run is not None}
    return Entry(
        item=item,
        source=source,
        values=tuple(values),
        claims=_claims(item, workflow, reads),
        measured=len({collect.label_key(v.variant) for v in values if v.run is not None}),
        planned=len(planned),
        runs=tuple(sorted(runs.values(), key=lambda run: run.started, reverse=True)),
    )


def _place(order: Mapping[frozenset[tuple[str, str]], int], labels: Labels) -> int:
    """A variant's place in the workflow, or that of the first one that labels fit."""
    wanted = collect.label_key(labels)
    fitting = [index for key, index in order.items() if wanted <= key]
    return order.get(wanted, min(fitting, default=len(order)))


def _measured(item: PublishedItem, reads: Iterable[_Read]) -> dict[At, Value]:
    found: dict[At, Value] = {}
    for read in reads:
        have = {at[:3] for at in found}
        for row in read.rows:
            at = _at(row)
            if _shown(item, row) and at[:3] not in have:
                found[at] = _value(row, read.run)
    return found


def _shown(item: PublishedItem, row: Row) -> bool:
    return (
        row.metric in item.metrics
        and (not item.measurements or row.measurement in item.measurements)
        and item.variant.items() <= row.variant.items()
    )


def _at(row: Row) -> At:
    variant = collect.label_key(row.variant)
    return variant, row.measurement, row.metric, row.unit, row.direction, row.subject


def _value(row: Row, run: Run) -> Value:
    return Value(
        variant=row.variant,
        measurement=row.measurement,
        metric=row.metric,
        unit=row.unit,
        direction=row.direction,
        subject=row.subject,
        published=row.reference.value if row.reference else None,
        source=row.reference.source if row.reference else "",
        summary=row.summary,
        run=run,
    )


def _missing(item: PublishedItem, workflow: Workflow, measured: Iterable[Value]) -> Iterator[Value]:
    """Published values without a run."""
    have = [(v.variant, v.metric, v.measurement) for v in measured if v.published is not None]
    for one in workflow.reference:
        if not _belongs(item, one) or any(
            metric == one.metric
            and one.measurement in (None, measurement)
            and collect.covers(one.variant, variant)
            for variant, metric, measurement in have
        ):
            continue
        yield Value(
            variant=one.variant,
            measurement=one.measurement or "",
            metric=one.metric,
            unit=one.unit,
            direction="",
            subject="",
            published=one.value,
            source=one.source,
            summary=None,
            run=None,
        )


def _belongs(item: PublishedItem, what: Reference | Assertion) -> bool:
    measured = not item.measurements or what.measurement in (None, *item.measurements)
    return what.metric in item.metrics and measured and item.concerns(what.variant)


def _claims(item: PublishedItem, workflow: Workflow, reads: Sequence[_Read]) -> tuple[Claim, ...]:
    """The claims about an item; assertions with the same claim are one."""
    found: dict[str, list[Checked]] = {}
    for index, wanted in enumerate(workflow.assertions):
        if wanted.claim is not None and _belongs(item, wanted):
            known = found.setdefault(wanted.claim, [])
            known += _checked(item, [read.checks[index] for read in reads])
    return tuple(
        Claim(text, _verdict(checks), sum(one.ok for one in checks), len(checks))
        for text, checks in found.items()
    )


def _checked(item: PublishedItem, runs: Iterable[Sequence[Checked]]) -> list[Checked]:
    """The checks of an assertion, each from the first run that has its variant."""
    found: dict[tuple[frozenset[tuple[str, str]], str], list[Checked]] = {}
    for checks in runs:
        new: dict[tuple[frozenset[tuple[str, str]], str], list[Checked]] = {}
        for one in checks:
            measured = not item.measurements or one.measurement in item.measurements
            if one.value is not None and measured and item.concerns(one.variant):
                new.setdefault((collect.label_key(one.variant), one.measurement), []).append(one)
        found |= {at: some for at, some in new.items() if at not in found}
    return [one for some in found.values() for one in some]


def _verdict(checks: Sequence[Checked]) -> Verdict:
    if not checks:
        return "not run"
    verdicts = {one.verdict for one in checks}
    if "fails" in verdicts:
        return "fails"
    if verdicts == {"holds"}:
        return "holds"
    return "agrees" if all(one.ok for one in checks) else "disagrees"
