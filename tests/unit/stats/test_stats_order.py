"""Trend and dependence over the order of trials."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.stats import autocorrelation, check_order

SERIES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=60)


def test_a_rising_series_is_a_trend() -> None:
    """Of 5 values in order, 2 of the 120 permutations are as extreme; of 12, next to none."""
    assert check_order([1, 2, 3, 4, 5]).trend_p == pytest.approx(2 / 120)
    found = check_order([10 + 0.5 * i for i in range(12)])
    assert found.trend
    assert found.slope == pytest.approx(0.5)


def test_one_outlier_does_not_bend_the_slope() -> None:
    series = [2.0 * i for i in range(20)]
    series[7] = 1e6
    assert check_order(series).slope == pytest.approx(2.0)


def test_autocorrelation_by_hand() -> None:
    """1, 2, 3, 4: deviations -1.5, -.5, .5, 1.5; (.75 - .25 + .75) / 5 = 0.25."""
    assert autocorrelation([1, 2, 3, 4]) == pytest.approx(0.25)
    assert autocorrelation([5, 5, 5]) == 0


def test_alternation_is_dependence() -> None:
    found = check_order([1.0, 2.0] * 10)
    assert found.dependent
    assert found.lag1 < 0


def test_few_values_raise_no_alarm() -> None:
    found = check_order([1, 2, 3, 4, 5, 6, 7])
    assert not found.trend
    assert not found.dependent


def test_a_constant_series_has_no_trend() -> None:
    found = check_order([4.0] * 10)
    assert (found.trend_p, found.slope, found.lag1) == (1, 0, 0)
    assert not found.trend
    assert not found.dependent


def test_needs_two_values() -> None:
    with pytest.raises(ValueError, match="expected at least two"):
        check_order([1.0])


def test_false_alarms_are_one_in_a_hundred() -> None:
    random = np.random.default_rng(8)
    checks = [check_order(random.normal(size=30)) for _ in range(500)]
    assert np.mean([check.trend for check in checks]) <= 0.03
    assert np.mean([check.dependent for check in checks]) <= 0.03


@given(SERIES)
def test_bounds_and_mirror(series: list[float]) -> None:
    found, mirrored = check_order(series), check_order(series[::-1])
    assert -1 <= found.lag1 <= 1
    assert 0 <= found.trend_p <= 1
    assert found.slope == pytest.approx(-mirrored.slope, abs=1e-6)
