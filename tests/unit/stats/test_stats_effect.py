"""Effects within blocks, and probabilities corrected for how many questions were asked."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from hawser.stats import Effect, corrected, effect, ordered, unpaired
from hawser.stats.effect import holm

POSITIVE = st.lists(st.floats(0.1, 1e4), min_size=3, max_size=12)


def blocks(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values, 1))


def found(one: list[float], other: list[float]) -> Effect:
    made = effect(blocks(one), blocks(other))
    assert made is not None
    return made


def test_a_ratio_within_blocks_is_the_paired_t_test_of_logarithms() -> None:
    one, other = [30.0, 36, 27, 33], [10.0, 11.5, 9.2, 10.4]
    made = found(one, other)
    logs = np.log(one) - np.log(other)
    assert made.value == pytest.approx(math.exp(logs.mean()))
    assert made.p == pytest.approx(scipy.stats.ttest_1samp(logs, 0).pvalue)
    interval = scipy.stats.ttest_1samp(logs, 0).confidence_interval()
    assert made.interval is not None
    assert (made.interval.low, made.interval.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )
    assert (made.kind, made.paired, made.n, made.clear) == ("ratio", True, 4, True)


def test_a_slow_hour_cancels() -> None:
    """Five blocks that differ by 50 %, two variants that differ by 5 %."""
    level = [100.0, 60, 130, 80, 95]
    scatter = [1.01, 0.995, 1.0, 1.006, 0.99]
    one = [1.05 * a * b for a, b in zip(level, scatter, strict=True)]
    assert found(one, level).clear
    apart = unpaired(one, level)
    assert apart is not None
    assert apart.close


def test_without_common_blocks_all_trials_count() -> None:
    one, other = {1: 30.0, 2: 31.0, 3: 29.0}, {4: 10.0, 5: 11.0, 6: 9.5, 2: 10.2}
    made = effect(one, other)
    assert made is not None
    welch = scipy.stats.ttest_ind(
        np.log(list(one.values())), np.log(list(other.values())), equal_var=False
    )
    assert (made.paired, made.n) == (False, 3)
    assert made.p == pytest.approx(welch.pvalue)


def test_incomplete_blocks_are_left_out() -> None:
    one, other = {1: 30.0, 2: 31.0, 3: 29.0, 4: 90.0}, {1: 10.0, 2: 11.0, 3: 9.5, 5: 1.0}
    whole = effect({b: one[b] for b in (1, 2, 3)}, {b: other[b] for b in (1, 2, 3)})
    assert effect(one, other) == whole


def test_where_a_value_is_not_positive_it_is_a_difference() -> None:
    made = found([0.0, 0.2, 0.1, 0.0], [1.0, 1.3, 1.0, 1.2])
    assert made.kind == "difference"
    assert made.value == pytest.approx(-1.05)
    assert made.clear


def test_two_blocks_give_a_ratio_without_interval() -> None:
    made = found([4, 4.2], [2, 2.1])
    assert (made.value, made.interval, made.p, made.verdict) == (pytest.approx(2), None, None, None)
    assert effect({}, blocks([1.0])) is None


NEVER = math.inf


@pytest.mark.parametrize(
    ("one", "other", "value", "p"),
    [
        ([NEVER] * 6, [1.0] * 6, 1.0, 2 / 64),
        ([NEVER] * 5, [1.0] * 5, 1.0, None),
        ([NEVER] * 6, [NEVER] * 6, 0.5, None),
        ([1.0] * 6 + [NEVER] * 2, [NEVER] * 8, 1 / 8, 2 / 64),
        ([NEVER, 1, 1, 1, 1, 1, 1, 1], [2.0] * 8, 1 / 8, 18 / 256),
    ],
)
def test_values_known_only_to_be_larger_are_put_in_order(
    one: list[float], other: list[float], value: float, p: float | None
) -> None:
    found = ordered(dict(enumerate(one)), dict(enumerate(other)))
    assert found is not None
    assert (found.kind, found.value, found.n) == ("order", value, len(one))
    assert found.p == (None if p is None else pytest.approx(p))
    assert found.larger == (value > 0.5)


def test_values_without_common_blocks_have_no_order() -> None:
    assert ordered({1: NEVER}, {2: 1.0}) is None


def test_equal_values_are_not_told_apart() -> None:
    assert found([7.0] * 3, [7.0] * 3).p == 1
    assert found([8.0] * 3, [7.0] * 3).p == 0


def test_holm_as_published() -> None:
    """Holm's own steps: smallest times k, next times k - 1, never falling."""
    assert holm([0.01, 0.04, 0.03, None, 0.005]) == pytest.approx((0.03, 0.06, 0.06, None, 0.02))
    assert holm([0.6, 0.7]) == (1, 1)


def test_a_correction_counts_what_was_asked_together() -> None:
    weak = found([30.0, 36, 27], [27.0, 32, 25.0])
    assert weak.clear
    together = corrected([weak] * 4)
    assert all(one.close and one.adjusted == pytest.approx(4 * (one.p or 0)) for one in together)


def test_one_of_five_equal_variants_is_rarely_told_apart() -> None:
    """The leader was told apart in 33 % of such runs by ratios of medians, uncorrected."""
    random, alarms = np.random.default_rng(3), 0
    for _ in range(400):
        columns = [blocks(c) for c in random.normal(100, 5, (5, 3)).tolist()]
        pairs = [effect(a, b) for i, a in enumerate(columns) for b in columns[:i]]
        alarms += any(one.clear for one in corrected([p for p in pairs if p is not None]))
    assert alarms / 400 <= 0.07


def test_power_between_blocks_that_differ() -> None:
    random, told = np.random.default_rng(4), 0
    for _ in range(500):
        level = 1 + 0.1 * random.standard_normal(5)
        one, other = level * (1 + 0.02 * random.standard_normal((2, 5)))
        told += found((1.05 * one).tolist(), other.tolist()).clear
    assert told / 500 >= 0.78


@settings(max_examples=30)
@given(POSITIVE, POSITIVE)
def test_interval_holds_the_ratio_and_turns_with_it(one: list[float], other: list[float]) -> None:
    made, turned = unpaired(one, other), unpaired(other, one)
    assert made is not None
    assert turned is not None
    assert made.value * turned.value == pytest.approx(1)
    if made.interval is not None:
        assert made.interval.low <= made.value * (1 + 1e-9)
        assert made.interval.high >= made.value * (1 - 1e-9)
