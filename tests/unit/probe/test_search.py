"""Searches on simulated devices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe.search import mlr, rfc2544
from hawser.probe.search.back_to_back import BackToBack, back_to_back
from hawser.probe.search.loss_curve import loss_curve
from hawser.probe.search.trial import Goal, SearchError, Trial

LIMITS = st.floats(50_000, 1_000_000)
GOAL = Goal(min_load=1000, max_load=1_500_000, seconds=60, loss=0, resolution=0.002)


class Policer:
    """A token bucket, full at the start of each trial."""

    def __init__(self, rate: float, depth: int = 32) -> None:
        self.rate = rate
        self.depth = depth
        self.seconds = 0.0

    def __call__(self, load: float, seconds: float) -> Trial:
        self.seconds += seconds
        sent = max(1, round(load * seconds))
        passed = min(sent, int(self.rate * seconds) + self.depth)
        return Trial(load, seconds, sent, sent - passed)


@given(LIMITS)
def test_both_modes_find_a_policer(limit: float) -> None:
    plain, multiple = Policer(limit), Policer(limit)
    assert rfc2544.search(plain, GOAL).load == pytest.approx(limit, rel=0.005)
    found = mlr.search(multiple, GOAL, limit=3600)
    assert found.load == pytest.approx(limit, rel=0.005)
    assert found.seconds == multiple.seconds


def trial_seconds(limit: float) -> tuple[float, float]:
    """What both modes need: the binary search, and MLRsearch."""
    plain, multiple = Policer(limit), Policer(limit)
    rfc2544.search(plain, GOAL)
    mlr.search(multiple, GOAL, limit=3600)
    return plain.seconds, multiple.seconds


@pytest.mark.parametrize("limit", [50e3, 100e3, 200e3, 333e3, 500e3, 750e3, 1e6])
def test_mlr_needs_a_third_of_the_trial_seconds(limit: float) -> None:
    plain, multiple = trial_seconds(limit)
    assert multiple <= plain / 3


@given(LIMITS)
def test_mlr_never_needs_half_of_the_trial_seconds(limit: float) -> None:
    # One limit in 200 lies so near to a load that was tried that one more long trial decides.
    plain, multiple = trial_seconds(limit)
    assert multiple <= plain / 2


@given(LIMITS, st.floats(0.001, 0.05))
def test_a_binary_search_brackets_the_limit(limit: float, resolution: float) -> None:
    goal = replace(GOAL, resolution=resolution)
    found = rfc2544.search(Policer(limit, depth=0), goal)
    assert found.load <= limit * 1.0001
    assert found.load >= limit * (1 - resolution) * 0.999


def test_some_loss_may_be_allowed() -> None:
    goal = replace(GOAL, loss=0.01)
    found = rfc2544.search(Policer(100_000, depth=0), goal)
    assert found.load == pytest.approx(101_010, rel=0.003)


@pytest.mark.parametrize("limit", [1_500_000, 9e6])
def test_what_carries_everything_is_at_the_greatest_load(limit: float) -> None:
    assert rfc2544.search(Policer(limit), GOAL).at_max_load
    assert mlr.search(Policer(limit), GOAL, limit=3600).at_max_load


def lossy(load: float, seconds: float) -> Trial:
    sent = round(load * seconds)
    return Trial(load, seconds, sent, sent // 1000 + 1)


def test_a_path_that_loses_frames_at_low_load_is_not_searched() -> None:
    for search in (rfc2544.search, lambda measure, goal: mlr.search(measure, goal, 3600)):
        with pytest.raises(SearchError, match="frames were lost at the minimum load"):
            search(lossy, GOAL)


def test_more_frames_than_were_sent_are_an_error() -> None:
    with pytest.raises(SearchError, match="3 frames came that were never sent"):
        Trial(1000, 1, sent=1000, lost=-3)


def test_a_loss_curve_ends_after_two_trials_without_loss() -> None:
    curve = loss_curve(Policer(750_000), 1_000_000, 1)
    assert [round(trial.load) for trial in curve] == [1_000_000, 900_000, 800_000, 700_000, 600_000]
    assert curve[0].loss == pytest.approx(0.25, abs=0.001)


def test_a_buffer_is_found_and_corrected() -> None:
    rate, drains, room = 1_000_000, 400_000, 600

    def burst(frames: int) -> Trial:
        left = max(0, frames - int(frames * drains / rate) - room)
        return Trial(rate, frames / rate, frames, left)

    found = back_to_back(burst, longest=100_000, repetitions=3)
    assert not found.unbounded
    assert found.mean == pytest.approx(1000, rel=0.02)
    assert found.buffer_seconds(rate, drains) == pytest.approx(room / rate, rel=0.02)


def test_a_device_without_a_limit_is_unbounded() -> None:
    found = back_to_back(lambda n: Trial(1e6, n / 1e6, n, 0), longest=1000, repetitions=2)
    assert found == BackToBack((1000, 1000), unbounded=True)
