"""Checks across fields: what no single field can know to be wrong."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.event import events
from hawser.spec.check.measurement import measurements
from hawser.spec.check.overlay import overlay
from hawser.spec.check.reach import reachability
from hawser.spec.check.topology import topology
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario


def scenario(scenario: Scenario, *, whole: bool) -> Iterator[Issue]:
    """Find what is wrong in one variant.

    Reachability is judged only where all else is right.

    Args:
        scenario: the variant.
        whole: whether nothing of it had to be left out.
    """
    issues = [
        *topology(scenario.topology),
        *overlay(scenario),
        *measurements(scenario),
        *events(scenario),
    ]
    yield from issues
    if whole and not issues:
        yield from reachability(scenario)
