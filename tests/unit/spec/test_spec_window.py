"""Bounds of failover and reversion times that no run could exceed."""

from __future__ import annotations

import pytest
from spec_files import SMALL, loaded, mistakes

from hawser.spec.units import Ratio

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


def test_repeat_may_be_a_precision() -> None:
    text = "extends: base.yaml\nrepeat: {until: 2 %, metric: rtt, limit: 40}\n"
    found = loaded(text, base=SMALL)
    assert found.until is not None
    assert (found.repeat, found.until.until, found.until.limit) == (10, Ratio(0.02), 40)
    fixed = loaded(text, ("repeat=3",), base=SMALL)
    assert (fixed.repeat, fixed.until) == (3, None)


def test_a_precision_is_checked() -> None:
    def told_of(repeat: str) -> list[str]:
        errors = mistakes(f"extends: base.yaml\nrepeat: {repeat}\n", base=SMALL)
        return [error.split(": ", 1)[1] for error in errors]

    assert told_of("{until: 2 %, metric: rttt, limit: 9}") == [
        "repeat.metric: found 'rttt', which is no metric; did you mean 'rtt'?",
        "repeat.limit: found 9, expected at least the 10 of least",
    ]
    assert told_of("{until: 2 %, metric: goodput, limit: 40}") == [
        "repeat.metric: found 'goodput', which no measurement gives"
    ]
    assert told_of("{until: 2, metric: rtt}")[0].startswith("repeat.limit: missing")
    assert told_of("many") == ["repeat: found 'many', expected a whole number"]
    assert told_of("0") == ["repeat: found 0, expected at least 1"]


@pytest.mark.parametrize(
    ("others", "measurement", "given"),
    [
        ("", None, False),
        ("  streams: 4\n", None, True),
        ("  streams: 4\n", "m", True),
        (" n: {probe: iperf3, from: a, to: b, with: m}\n", None, True),
        (" n: {probe: iperf3, from: a, to: b, with: m}\n", "m", True),
        (" n: {probe: iperf3, from: a, to: b, with: m}\n", "n", False),
        (" n: {probe: iperf3, from: a, to: b, with: m, reverse: true}\n", None, False),
        (" n: {probe: iperf3, from: a, to: b}\n", None, False),
    ],
)
def test_fairness_needs_several_that_share(
    others: str, measurement: str | None, given: bool
) -> None:
    of = f", measurement: {measurement}" if measurement else ""
    text = (
        "extends: base.yaml\n"
        "measurements:\n"
        f" m:\n  probe: iperf3\n  from: a\n  to: b\n{others}"
        f"assert: [{{metric: fairness, at_least: 0.5{of}}}]\n"
    )
    found = [error.split(": ", 1)[1] for error in mistakes(text, base=SMALL)]
    assert [("fairness" in error) for error in found] == ([] if given else [True]), found
