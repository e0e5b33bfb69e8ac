"""Intervals against published values, against their promises, and against what makes no sense."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawser.stats import summarise
from hawser.stats.summary import median_interval

SLEEP = (1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4)
"""Cushny and Peebles' differences, as in Student (1908) and in R's data set `sleep`."""

VALUES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=40)


def test_summary_of_students_sleep_data() -> None:
    found = summarise(SLEEP)
    assert found.mean == pytest.approx(1.58)
    assert found.median == pytest.approx(1.3)
    assert found.sd == pytest.approx(1.229995, abs=1e-6)
    assert found.cov == pytest.approx(1.229995 / 1.58, abs=1e-6)


def test_interval_of_students_sleep_data() -> None:
    """Ranks 2 and 3 of ten hold 0.97852 and 0.89062: I = 0.32444, weight 8 I / (2 + 6 I) = 0.6577.

    So the ends are 0.3423 of 0.8 and 0.6577 of 1.0, and likewise of 2.4 and 1.8.
    """
    interval, confidence = median_interval(np.array(SLEEP))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.93153, 2.00541), abs=2e-5)
    assert confidence == 0.95


@pytest.mark.parametrize(
    ("n", "k", "confidence"),
    [(5, 1, 0.9375), (30, 10, 0.95)],
)
def test_ranks_of_the_median_interval(n: int, k: int, confidence: float) -> None:
    """Between five values nothing can be interpolated; else ranks k to k + 1 enclose the end."""
    interval, achieved = median_interval(np.arange(1.0, n + 1))
    assert interval is not None
    assert k <= interval.low <= k + 1
    assert interval.low + interval.high == pytest.approx(n + 1)
    assert achieved == pytest.approx(confidence, abs=1e-7)


def test_fewer_than_five_trials_have_no_interval() -> None:
    for n in range(1, 5):
        found = summarise(np.arange(1.0, n + 1).tolist())
        assert found.interval is found.confidence is None
    assert summarise([3.0]).sd is None


def test_equal_runs_have_intervals_of_no_width() -> None:
    found = summarise([7.0] * 6)
    assert found.interval is not None
    assert found.interval.low == found.interval.high == 7.0


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf, 1.0]])
def test_refuses_what_is_no_sample(values: list[float]) -> None:
    with pytest.raises(ValueError, match="found"):
        summarise(values)


def test_what_never_happened_is_larger_than_all_that_did() -> None:
    found = summarise([200.0, 210.0, 150.0], [False, False, True])
    assert (found.median, found.open, found.censored) == (210.0, False, 1)
    assert found.mean is found.sd is found.cov is None
    found = summarise([200.0, 900.0, 800.0], [False, True, True])
    assert (found.median, found.open) == (800.0, True)


@pytest.mark.parametrize(
    ("values", "cut", "least"),
    [
        ([100.0, 1000.0], [False, True], 550.0),
        ([100.0, 200.0, 1000.0, 1000.0], [False, False, True, True], 600.0),
        ([900.0, 500.0, 600.0], [False, True, True], 600.0),
    ],
)
def test_an_open_median_is_a_lower_bound(
    values: list[float], cut: list[bool], least: float
) -> None:
    """It was the smallest censored value: "> 1000" of trials of 100 and at least 1000."""
    found = summarise(values, cut)
    assert (found.median, found.open) == (least, True)


def test_an_interval_without_end_is_none() -> None:
    assert summarise([1.0] * 5, [False] * 4 + [True]).interval is None
    assert summarise([1.0] * 30, [False] * 29 + [True]).interval is not None


@settings(max_examples=40)
@given(VALUES)
def test_statistics_are_ordered(values: list[float]) -> None:
    found = summarise(values)
    assert found.minimum <= found.median <= found.maximum
    assert found.mean is not None
    slack = 1e-9 * (1 + abs(found.mean))
    assert found.minimum - slack <= found.mean <= found.maximum + slack
    if found.interval is not None:
        assert found.minimum - slack <= found.interval.low <= found.median + slack
        assert found.median - slack <= found.interval.high <= found.maximum + slack


@pytest.mark.parametrize("n", [5, 10, 30])
def test_coverage_is_the_same_where_one_trial_in_seven_is_slow(n: int) -> None:
    """Student's interval of the mean holds 57, 80 and 93 % here."""
    random = np.random.default_rng(20)
    modes = np.where(random.random((3000, n)) < 0.15, 70.0, 100.0)
    samples = modes + 2 * random.standard_normal((3000, n))
    truth = float(np.median(np.where(random.random(10**6) < 0.15, 70, 100)
                            + 2 * random.standard_normal(10**6)))  # fmt: skip
    intervals = [median_interval(sample)[0] for sample in samples]
    held = np.mean([i is not None and i.low <= truth <= i.high for i in intervals])
    assert 0.93 <= held <= 0.97
