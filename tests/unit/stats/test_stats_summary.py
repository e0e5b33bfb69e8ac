"""Intervals against published values, against their promises, and against what makes no sense."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawser.stats import summarise
from hawser.stats.summary import bca_interval, median_interval, t_interval

SLEEP = (1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4)
"""Cushny and Peebles' differences, as in Student (1908) and in R's data set `sleep`."""

VALUES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=40)


def test_t_interval_of_students_sleep_data() -> None:
    """R: t.test(extra ~ group, sleep, paired) gives 0.7001142 to 2.4598858 around 1.58."""
    found = summarise(SLEEP)
    assert found.mean == pytest.approx(1.58)
    assert found.t is not None
    assert (found.t.low, found.t.high) == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    assert found.sd == pytest.approx(1.229995, abs=1e-6)
    assert found.cov == pytest.approx(1.229995 / 1.58, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "k", "confidence"),
    [(2, 1, 0.5), (5, 1, 0.9375), (6, 1, 0.96875), (9, 2, 0.9609375), (10, 2, 0.978515625),
     (15, 4, 0.96484375), (20, 6, 0.9586105)],
)  # fmt: skip
def test_ranks_of_the_median_interval(n: int, k: int, confidence: float) -> None:
    """Ranks and confidences as tabulated for the sign test's interval."""
    interval, achieved = median_interval(np.arange(1.0, n + 1))
    assert interval is not None
    assert (interval.low, interval.high) == (k, n + 1 - k)
    assert achieved == pytest.approx(confidence, abs=1e-7)


def test_one_run_has_no_interval() -> None:
    found = summarise([3.0])
    assert (found.n, found.mean, found.median) == (1, 3.0, 3.0)
    assert found.t is found.bootstrap is found.order is found.sd is found.cov is None


def test_equal_runs_have_intervals_of_no_width() -> None:
    found = summarise([7.0] * 6)
    assert found.t == found.bootstrap == found.order
    assert found.t is not None
    assert found.t.low == found.t.high == 7.0
    assert not found.disagree


def test_two_runs_have_no_bootstrap_interval() -> None:
    found = summarise([1.0, 2.0])
    assert found.bootstrap is None
    assert found.t is not None


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf, 1.0]])
def test_refuses_what_is_no_sample(values: list[float]) -> None:
    with pytest.raises(ValueError, match="found"):
        summarise(values)


def test_an_outlier_makes_the_intervals_disagree() -> None:
    steady = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 100.3, 99.9]
    assert not summarise(steady).disagree
    assert summarise([*steady[:-1], 40.0]).disagree


def test_same_seed_same_interval() -> None:
    assert summarise(SLEEP, seed=3) == summarise(SLEEP, seed=3)
    assert summarise(SLEEP, seed=3) != summarise(SLEEP, seed=4)


@settings(max_examples=40)
@given(VALUES)
def test_statistics_are_ordered(values: list[float]) -> None:
    found = summarise(values)
    assert found.minimum <= found.median <= found.maximum
    slack = 1e-9 * (1 + abs(found.mean))
    assert found.minimum - slack <= found.mean <= found.maximum + slack
    for interval, centre in ((found.t, found.mean), (found.order, found.median)):
        assert interval is None or interval.low - slack <= centre <= interval.high + slack
    if found.bootstrap is not None:
        assert found.minimum - slack <= found.bootstrap.low <= found.bootstrap.high
        assert found.bootstrap.high <= found.maximum + slack


@settings(max_examples=30)
@given(VALUES.filter(lambda v: len(v) > 2 and np.ptp(v) > 1e-3), st.integers(-9, 9))
def test_intervals_follow_a_change_of_unit(values: list[float], power: int) -> None:
    factor = 2.0**power  # exact, so that ties of resamples stay ties
    one, other = summarise(values), summarise([factor * value for value in values])
    scale = factor * max(map(abs, values))
    for a, b in ((one.t, other.t), (one.bootstrap, other.bootstrap), (one.order, other.order)):
        if a is None or b is None:
            assert a is b
            continue
        assert (factor * a.low, factor * a.high) == pytest.approx((b.low, b.high), abs=1e-6 * scale)


@pytest.mark.parametrize(
    ("n", "t_range", "bca_range", "order_range"),
    [
        (5, (0.93, 0.97), (0.78, 0.88), (0.91, 0.96)),
        (10, (0.93, 0.97), (0.86, 0.94), (0.96, 0.995)),
        (30, (0.93, 0.97), (0.91, 0.97), (0.935, 0.975)),
    ],
)
def test_coverage(
    n: int,
    t_range: tuple[float, float],
    bca_range: tuple[float, float],
    order_range: tuple[float, float],
) -> None:
    """How often the intervals hold the truth of normal samples; BCa falls short at small n."""
    random = np.random.default_rng(20)
    samples = random.normal(100, 5, (1000, n))
    t = [t_interval(sample) for sample in samples]
    order = [median_interval(sample)[0] for sample in samples]
    bca = [bca_interval(sample, seed=i) for i, sample in enumerate(samples[:400])]
    for intervals, (low, high) in ((t, t_range), (order, order_range), (bca, bca_range)):
        held = np.mean([i is not None and i.low <= 100 <= i.high for i in intervals])
        assert low <= held <= high, (n, held)


def test_disagreement_is_rare_in_normal_samples() -> None:
    random = np.random.default_rng(5)
    for n in (5, 10, 30):
        alarms = [summarise(random.normal(100, 5, n)).disagree for _ in range(150)]
        assert np.mean(alarms) <= 0.04, n


def test_values_whose_squares_vanish_have_an_interval() -> None:
    interval = bca_interval(np.array([0.0, 0.0, 2.2e-206]), seed=1)
    assert interval is not None
    assert 0 <= interval.low <= interval.high <= 2.2e-206
