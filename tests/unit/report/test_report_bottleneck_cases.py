"""From the evidence of a trial to what limited it, in cases whose answer is known."""

from __future__ import annotations

from functools import cache

import pytest
from bottleneck_cases import CASES, GUILTY, INNOCENT, Case, scenario

from hawser.report.evidence import gather, ways
from hawser.spec.workflow import Scenario
from hawser.stats.bottleneck import find
from hawser.store import Sample

CANNOT_TELL = 6
"""Cases at most in which nothing is named."""


@cache
def scene(workflow: str) -> Scenario:
    return scenario(workflow)


def limits(case: Case) -> set[str]:
    where = scene(case.workflow)
    measurement = where.measurements[case.measurement]
    samples = [
        Sample(
            measurement=case.measurement,
            metric=metric,
            unit="x",
            value=value,
            subject=subject,
            kind="evidence",
        )
        for subject, values in case.samples.items()
        for metric, value in values.items()
    ]
    evidence = gather(samples, measurement, ways(where, measurement), case.delivered)
    return {f"{cause.kind} {cause.element}" for cause in find(evidence).limits}


@pytest.mark.parametrize("name", GUILTY)
def test_what_limits_is_named(name: str) -> None:
    assert limits(GUILTY[name]) == GUILTY[name].limits


@pytest.mark.parametrize("name", INNOCENT)
def test_no_innocent_is_named(name: str) -> None:
    assert limits(INNOCENT[name]) == INNOCENT[name].limits


def test_most_cases_have_an_answer() -> None:
    assert len(CASES) >= 40
    assert sum(not limits(case) for case in CASES.values()) <= CANNOT_TELL
