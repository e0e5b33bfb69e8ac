"""A workflow interleaved with an earlier run's."""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic
from hawser.engine.against import beside, with_program
from hawser.engine.errors import InputError
from hawser.engine.plan import plan
from hawser.overlay.lab.facts import Facts
from hawser.spec.workflow import Workflow


def without(workflow: Workflow, number: int) -> Workflow:
    kept = [v for at, v in enumerate(workflow.variants) if at != number]
    return workflow.model_copy(update={"variants": tuple(kept)})


def test_every_variant_stands_beside_its_earlier_self() -> None:
    made = beside(synthetic.quickstart(3), synthetic.quickstart(5))
    labels = [variant.labels for variant in made.workflow.variants]
    assert labels[:2] == [
        {"transport": "ipomp", "version": "now"},
        {"transport": "ipomp", "version": "before"},
    ]
    assert len(labels) == 6
    assert made.workflow.repeat == 3
    assert made.workflow.baseline == {"version": "before"}
    assert made.left_out == ()


def test_assertions_are_about_the_present() -> None:
    made = beside(synthetic.quickstart(3), synthetic.quickstart(3))
    assert made.workflow.assertions[0].variant == {"transport": "ipomp", "version": "now"}
    assert all(each.variant["version"] == "now" for each in made.workflow.assertions)


def test_variants_of_one_alone_are_left_out_and_named() -> None:
    made = beside(without(synthetic.quickstart(), 0), without(synthetic.quickstart(), 1))
    assert [v.labels["transport"] for v in made.workflow.variants] == ["ipip-direct"] * 2
    assert made.left_out == ("ipip-best", "ipomp")


@pytest.mark.parametrize(
    ("workflow", "earlier", "complaint"),
    [
        (synthetic.quickstart(), synthetic.table1(), "no variant in common"),
        (
            synthetic.quickstart(),
            beside(synthetic.quickstart(), synthetic.quickstart()).workflow,
            "axis 'version'",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    workflow: Workflow, earlier: Workflow, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        beside(workflow, earlier)


def test_only_the_earlier_variants_run_with_the_earlier_build() -> None:
    made = beside(synthetic.quickstart(2), synthetic.quickstart(2))
    planned = plan(made.workflow, Facts(netem=True))
    assert with_program(planned, None) == planned
    programs = {
        each.variant.labels["version"]: each.network.hawserd
        for each in with_program(planned, Path("/old/hawserd")).variants
    }
    assert programs == {"now": "", "before": "/old/hawserd"}
