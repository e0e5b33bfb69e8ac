"""Ratios of medians."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawser.stats import ratio_of_medians

POSITIVE = st.lists(st.floats(0.1, 1e4), min_size=3, max_size=12)


def test_a_clear_difference() -> None:
    found = ratio_of_medians([30, 31, 29, 30, 32], [10, 10.1, 9.9, 10, 10.2])
    assert found is not None
    assert found.value == 3.0
    assert found.interval is not None
    assert 2.8 < found.interval.low <= 3.0 <= found.interval.high < 3.3
    assert found.clear


def test_no_difference() -> None:
    found = ratio_of_medians([10, 11, 9, 10.5, 9.5], [10, 10.9, 9.1, 10.4, 9.6])
    assert found is not None
    assert not found.clear


def test_too_few_runs_give_a_ratio_without_interval() -> None:
    found = ratio_of_medians([4, 4.2], [2, 2.1, 2.2])
    assert found is not None
    assert found.interval is None
    assert not found.clear


def test_nothing_is_no_multiple_of_zero() -> None:
    assert ratio_of_medians([1, 2, 3], [0, 0, 0]) is None
    found = ratio_of_medians([1, 2, 3], [0, 1, 2])
    assert found is not None
    assert found.interval is None


@settings(max_examples=30)
@given(POSITIVE, POSITIVE)
def test_interval_holds_the_ratio_and_turns_with_it(one: list[float], other: list[float]) -> None:
    found, turned = ratio_of_medians(one, other), ratio_of_medians(other, one)
    assert found is not None
    assert turned is not None
    assert found.value * turned.value == pytest.approx(1)
    assert found.interval is not None
    assert found.interval.low <= found.value * (1 + 1e-9)
    assert found.interval.high >= found.value * (1 - 1e-9)


def test_coverage() -> None:
    random = np.random.default_rng(3)
    for n, (low, high) in {5: (0.93, 0.995), 10: (0.92, 0.985)}.items():
        held = []
        for seed in range(300):
            pair = random.normal(30, 1.5, n), random.normal(10, 0.5, n)
            found = ratio_of_medians(*pair, seed=seed)
            assert found is not None
            assert found.interval is not None
            held.append(found.interval.low <= 3 <= found.interval.high)
        assert low <= np.mean(held) <= high, (n, np.mean(held))
