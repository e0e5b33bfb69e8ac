"""Bounds of failover and reversion times that no run could exceed."""

from __future__ import annotations

import pytest
from spec_files import SMALL, mistakes

OUTAGE = """
measurements:
  rtt: null
  tcp: {probe: iperf3, from: a, to: b, duration: 8 s, warmup: 2 s}
events:
  - {at: 4 s, element: "link:cable", change: {up: false}}
  - {at: 5500 ms, element: "link:cable", change: {up: true}}
"""


def told(assertion: str) -> list[str]:
    base = SMALL + "name: base\n" if "name:" not in SMALL else SMALL
    text = f"extends: base.yaml\n{OUTAGE}assert:\n  - {assertion}\n"
    return mistakes(text, base=base)


@pytest.mark.parametrize(
    ("assertion", "message"),
    [
        (
            "{metric: failover_time, at_most: 2000}",
            "found 2000 ms, expected at most 1500 ms, for which link:cable is observed after 4 s",
        ),
        (
            "{metric: reversion_time, at_most: 5000}",
            "found 5000 ms, expected at most 4500 ms, for which link:cable is observed after 5.5 s",
        ),
    ],
)
def test_a_bound_longer_than_what_is_observed_is_refused(assertion: str, message: str) -> None:
    """A flow that never recovered passed it."""
    (found,) = told(assertion)
    assert found.endswith(f"assert.0.at_most: {message}")


@pytest.mark.parametrize(
    "assertion",
    [
        "{metric: failover_time, at_most: 1500}",
        "{metric: reversion_time, at_most: 4500}",
        "{metric: goodput_min, at_most: 9000}",
    ],
)
def test_others_are_not(assertion: str) -> None:
    assert told(assertion) == []


def test_bounds_that_contradict_are_refused() -> None:
    (found,) = told("{metric: goodput, at_least: 9, at_most: 8}")
    assert found.endswith("assert.0.at_most: found 8, expected at least the 9 of at_least")


def test_a_baseline_must_exist() -> None:
    text = "extends: base.yaml\nbaseline: {transport: nobody}\n"
    (found,) = mistakes(text, base=SMALL)
    assert "baseline.transport: found 'transport', which is no axis" in found
