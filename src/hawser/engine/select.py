"""Parts of a workflow: some of its variants, fewer or shorter trials. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hawser.engine.errors import InputError
from hawser.spec.units import Duration
from hawser.spec.workflow import LINE_FROM, Assertion, Labels, Variant, Workflow


def only(workflow: Workflow, patterns: Sequence[str]) -> Workflow:
    """Keep the variants that match all patterns, with their references and assertions.

    A pattern is a list of alternatives, separated by commas; each is the value of any axis
    (`ipomp`) or of one (`transport=ipomp`).

    Raises:
        InputError: an alternative names no value of this workflow, or no variant is left.
    """
    kept = workflow.variants
    for pattern in patterns:
        alternatives = [text.strip() for text in pattern.split(",")]
        unknown = [a for a in alternatives if not _any(a, workflow.variants)]
        if unknown:
            raise InputError([_unknown(text, workflow) for text in unknown])
        kept = tuple(v for v in kept if any(_matches(a, v.labels) for a in alternatives))
    if not kept:
        raise InputError([f"--only {' --only '.join(patterns)}: no variant satisfies all of them"])
    return workflow.model_copy(
        update={
            "variants": kept,
            "reference": tuple(r for r in workflow.reference if _concerns(r.variant, kept)),
            "assertions": tuple(
                a
                for a in workflow.assertions
                if _concerns(a.variant, kept)
                and _concerns(a.relative_to, kept)
                and (a.across is None or _whole(a, workflow.variants, kept))
                and (a.linear_in is None or _enough(a, kept))
            ),
            "baseline": workflow.baseline if _concerns(workflow.baseline, kept) else {},
        }
    )


def _concerns(labels: Labels, variants: Sequence[Variant]) -> bool:
    return any(labels.items() <= variant.labels.items() for variant in variants)


def _whole(assertion: Assertion, variants: Sequence[Variant], kept: Sequence[Variant]) -> bool:
    """Whether all values of an assertion's axis are kept."""
    axis = assertion.across or ""
    had, has = (
        {v.labels.get(axis) for v in some if assertion.variant.items() <= v.labels.items()}
        for some in (variants, kept)
    )
    return had == has


def _enough(assertion: Assertion, kept: Sequence[Variant]) -> bool:
    """Whether enough values of an assertion's axis are kept for a line."""
    axis = assertion.linear_in or ""
    values = {v.labels.get(axis) for v in kept if assertion.variant.items() <= v.labels.items()}
    return len(values) >= LINE_FROM


def _any(alternative: str, variants: Sequence[Variant]) -> bool:
    return any(_matches(alternative, variant.labels) for variant in variants)


def _matches(alternative: str, labels: Labels) -> bool:
    axis, given, value = alternative.partition("=")
    return labels.get(axis) == value if given else alternative in labels.values()


def _unknown(found: str, workflow: Workflow) -> str:
    values = sorted(
        {f"{a}={v}" for variant in workflow.variants for a, v in variant.labels.items()}
    )
    return f"--only: found {found!r}, expected a value of a variant: {', '.join(values) or 'none'}"


def lasting(workflow: Workflow, duration: Duration) -> Workflow:
    """The workflow with another duration for every measurement that has one."""
    return workflow.model_copy(
        update={"variants": tuple(_lasting(variant, duration) for variant in workflow.variants)}
    )


def _lasting(variant: Variant, duration: Duration) -> Variant:
    measurements = {
        name: measurement.model_copy(update={"duration": duration})
        if "duration" in type(measurement).model_fields
        else measurement
        for name, measurement in variant.scenario.measurements.items()
    }
    scenario = variant.scenario.model_copy(update={"measurements": measurements})
    return variant.model_copy(update={"scenario": scenario})
