"""Read a run and judge it."""

from __future__ import annotations

from hawser.report import assertions, bottleneck, collect, judge
from hawser.report.finding import finding
from hawser.report.model import Exclusion, Report
from hawser.report.regression import regressions
from hawser.store import Bundle


def build(bundle: Bundle) -> Report:
    """Make the report of a run, also of an unfinished one.

    Raises:
        BundleError: the bundle is damaged.
    """
    workflow, found = bundle.workflow, collect.collect(bundle)
    counters = collect.shown_counters(found, workflow)
    everything = [row for one in found for row in collect.rows(one, workflow, counters)]
    active = [row for row in everything if row.measurement != collect.PASSIVE]
    order = judge.order_findings(active)
    rows = judge.with_intervals(active, order)
    counted = [row for row in everything if row.measurement == collect.PASSIVE]
    passive = judge.with_intervals(counted, ())
    layout, about = judge.lay_out(workflow), collect.headline(rows)
    comparisons = judge.comparisons(layout, about, workflow.baseline)
    measured = {collect.label_key(row.variant) for row in about}
    planned = [variant.labels for variant in workflow.variants]
    missing = [labels for labels in planned if collect.label_key(labels) not in measured]
    return Report(
        manifest=bundle.manifest,
        workflow=workflow,
        state=bundle.state,
        problems=bundle.problems(),
        warnings=(
            *judge.warnings(rows, order, bundle.manifest),
            *judge.imprecise(workflow.until, active),
        ),
        finding=finding(layout, about, comparisons, missing),
        layout=layout,
        rows=tuple(rows),
        passive=tuple(passive),
        headline=about,
        comparisons=comparisons,
        regressions=regressions(rows, workflow.baseline) if bundle.manifest.against else (),
        bottlenecks=bottleneck.bottlenecks(found, workflow),
        excluded=excluded(bundle),
        outcomes=assertions.outcomes(workflow, everything),
        order=order,
        unmatched=collect.unmatched(workflow, rows),
        series=collect.time_series(found, about),
    )


def excluded(bundle: Bundle) -> tuple[Exclusion, ...]:
    """The finished trials that are left out of all statistics."""
    return tuple(
        Exclusion(
            trial=trial.record.trial,
            repeat=trial.record.repeat,
            variant=trial.record.variant,
            reason=trial.record.reason or "no reason given",
        )
        for trial in bundle.trials
        if not trial.record.valid
    )
