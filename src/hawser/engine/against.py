"""A workflow beside an earlier run's, interleaved in one new run: a regression check. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hawser.engine.errors import InputError
from hawser.engine.plan import Plan, Prepared
from hawser.spec.workflow import Labels, Variant, Workflow
from hawser.store import label

AXIS, NOW, BEFORE = "version", "now", "before"
"""The axis that is added, and its values."""


@dataclass(frozen=True)
class Beside:
    """Both workflows as one."""

    workflow: Workflow
    left_out: tuple[str, ...]
    """Variants that only one of them has."""


def beside(workflow: Workflow, earlier: Workflow) -> Beside:
    """Put the variants that both have side by side, with the earlier ones as the baseline.

    References and assertions are about the present ones.

    Raises:
        InputError: no variant is in both, or one has an axis of that name already.
    """
    if any(AXIS in each.labels for each in (*workflow.variants, *earlier.variants)):
        raise InputError([f"--against: found an axis {AXIS!r}: the run is a comparison itself"])
    known = {_key(each.labels): each for each in earlier.variants}
    both = [each for each in workflow.variants if _key(each.labels) in known]
    if not both:
        raise InputError(["--against: the workflow and the run have no variant in common"])
    pairs = [
        _versioned(each, version)
        for one in both
        for each, version in ((one, NOW), (known[_key(one.labels)], BEFORE))
    ]
    kept = {_key(each.labels) for each in both}
    every = (*workflow.variants, *earlier.variants)
    left_out = dict.fromkeys(label(v.labels) for v in every if _key(v.labels) not in kept)
    now = {AXIS: NOW}
    return Beside(
        workflow.model_copy(
            update={
                "variants": tuple(pairs),
                "baseline": {AXIS: BEFORE},
                "reference": tuple(
                    each.model_copy(update={"variant": each.variant | now})
                    for each in workflow.reference
                ),
                "assertions": tuple(
                    each.model_copy(update={"variant": each.variant | now})
                    for each in workflow.assertions
                ),
            }
        ),
        tuple(left_out),
    )


def _versioned(variant: Variant, version: str) -> Variant:
    return variant.model_copy(update={"labels": variant.labels | {AXIS: version}})


def _key(labels: Labels) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


def with_program(planned: Plan, program: Path | None) -> Plan:
    """The plan with another build of `hawserd` for the earlier variants, if there is one."""
    if program is None:
        return planned
    return replace(planned, variants=tuple(_built(each, program) for each in planned.variants))


def _built(prepared: Prepared, program: Path) -> Prepared:
    if prepared.variant.labels.get(AXIS) != BEFORE:
        return prepared
    network = prepared.network.model_copy(update={"hawserd": str(program)})
    return replace(prepared, network=network)
