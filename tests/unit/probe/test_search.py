"""Searches on simulated devices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat

from hawser.probe.search import mlr, rfc2544
from hawser.probe.search.back_to_back import BackToBack, back_to_back
from hawser.probe.search.loss_curve import loss_curve
from hawser.probe.search.record import Record
from hawser.probe.search.trial import (
    Goal,
    Log,
    LowerBound,
    Measure,
    SearchError,
    Trial,
    conditional_loss,
)

LIMITS = st.floats(50_000, 1_000_000)
GOAL = Goal(min_load=1000, max_load=1_500_000, seconds=60, losses=(0.0,), resolution=0.002)

Search = Callable[[Log, Goal], tuple[LowerBound, ...]]
MODES: list[Search] = [rfc2544.search, mlr.search]


class Policer:
    """A token bucket, full at the start of each trial. Its clock counts the trials' seconds."""

    def __init__(self, rate: float, depth: int = 32) -> None:
        self.rate = rate
        self.depth = depth
        self.seconds = 0.0

    def __call__(self, load: float, seconds: float) -> Trial:
        self.seconds += seconds
        sent = max(1, round(load * seconds))
        passed = min(sent, int(self.rate * seconds) + self.depth)
        return Trial(load, seconds, sent, sent - passed)

    def log(self, limit: float = 3600) -> Log:
        return Log(self, limit, clock=lambda: self.seconds)


def found(search: Search, measure: Measure, goal: Goal = GOAL) -> LowerBound:
    return search(Log(measure, 3600), goal)[0]


@given(LIMITS)
def test_both_modes_find_a_policer(limit: float) -> None:
    for search in MODES:
        assert found(search, Policer(limit)).load == pytest.approx(limit, rel=0.005)


def trial_seconds(limit: float) -> tuple[float, float]:
    """What both modes need: the binary search, and MLRsearch."""
    plain, multiple = Policer(limit).log(), Policer(limit).log()
    rfc2544.search(plain, GOAL)
    mlr.search(multiple, GOAL)
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
    load = found(rfc2544.search, Policer(limit, depth=0), goal).load
    assert load <= limit * 1.0001
    assert load >= limit * (1 - resolution) * 0.999


@pytest.mark.parametrize("search", MODES)
@given(limit=LIMITS, loss=st.floats(0.001, 0.1))
def test_both_modes_report_what_is_forwarded(search: Search, limit: float, loss: float) -> None:
    """A policer passes the same at any load above its rate: the load found is above it."""
    bound = found(search, Policer(limit, depth=0), replace(GOAL, losses=(loss,)))
    assert bound.loss <= loss
    assert bound.throughput == pytest.approx(bound.load * (1 - bound.loss))
    assert bound.throughput == pytest.approx(limit, rel=max(0.0021, loss + 1e-4))
    assert bound.load == pytest.approx(limit / (1 - loss), rel=max(0.0021, loss + 1e-4))


@pytest.mark.parametrize("search", MODES)
def test_both_modes_report_the_same(search: Search) -> None:
    bound = found(search, Policer(100_000, depth=0), replace(GOAL, losses=(0.001,)))
    assert bound.load == pytest.approx(100_100, rel=0.002)
    assert bound.throughput == pytest.approx(100_000, rel=0.002)


@pytest.mark.parametrize("search", MODES)
@pytest.mark.parametrize("limit", [1_500_000, 9e6])
def test_what_carries_everything_is_at_the_greatest_load(search: Search, limit: float) -> None:
    assert found(search, Policer(limit)).at_max_load


@pytest.mark.parametrize("search", MODES)
def test_the_greatest_load_is_known_though_it_loses_what_is_allowed(search: Search) -> None:
    def nearly(load: float, seconds: float) -> Trial:
        sent = round(load * seconds)
        return Trial(load, seconds, sent, round(0.004 * sent))

    bound = found(search, nearly, replace(GOAL, losses=(0.005,)))
    assert bound.at_max_load
    assert bound.throughput == pytest.approx(0.996 * GOAL.max_load)


@pytest.mark.parametrize("search", MODES)
@given(limit=st.floats(60, 3600))
@settings(max_examples=30)
def test_no_search_lasts_longer_than_its_limit(search: Search, limit: float) -> None:
    policer = Policer(333_000)
    with contextlib.suppress(SearchError):
        search(policer.log(limit), GOAL)
    assert policer.seconds <= limit


@pytest.mark.parametrize("search", MODES)
def test_a_search_that_takes_too_long_says_what_helps(search: Search) -> None:
    with pytest.raises(SearchError, match="search_limit of 100 s; a longer limit, shorter trials"):
        search(Policer(333_000).log(100), GOAL)


@pytest.mark.parametrize("search", MODES)
@given(limit=LIMITS)
@settings(max_examples=20)
def test_two_goals_are_found_by_one_search(search: Search, limit: float) -> None:
    both = Policer(limit, depth=0).log()
    first, second = search(both, replace(GOAL, losses=(0.0, 0.005)))
    assert (first.goal_loss, second.goal_loss) == (0.0, 0.005)
    assert first.load == pytest.approx(limit, rel=0.0021)
    assert second.load == pytest.approx(limit / 0.995, rel=0.0051)
    alone = 0.0
    for loss in (0.0, 0.005):
        log = Policer(limit, depth=0).log()
        search(log, replace(GOAL, losses=(loss,)))
        alone += log.seconds
    assert both.seconds < alone


class Slipping:
    """Carries everything up to a load, but loses a frame in every n-th trial."""

    def __init__(self, rate: float, every: int) -> None:
        self.rate = rate
        self.every = every
        self.trials = 0

    def __call__(self, load: float, seconds: float) -> Trial:
        self.trials += 1
        sent = round(load * seconds)
        lost = max(0, sent - round(self.rate * seconds))
        return Trial(load, seconds, sent, max(lost, self.trials % self.every == 0))


@pytest.mark.parametrize("search", MODES)
def test_an_exceed_ratio_forgives_trials_that_are_unlucky(search: Search) -> None:
    """A frame lost in every fourth trial is no limit where half of the trials may lose."""
    tst009 = replace(GOAL, seconds=1, trials=21, exceed=0.5, resolution=0.005)
    bound = found(search, Slipping(200_000, every=4), tst009)
    assert bound.load == pytest.approx(200_000, rel=0.006)
    assert bound.loss == 0
    with pytest.raises(SearchError, match="without being full"):
        found(search, Slipping(200_000, every=4), replace(tst009, exceed=0.0))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=21), st.floats(0, 0.99))
def test_the_loss_at_a_load_is_the_quantile_of_the_standard(
    losses: list[float], exceed: float
) -> None:
    """Held against the library's own, where no trial was left out."""
    goal = replace(GOAL, trials=len(losses), exceed=exceed)
    target = TargetSpec(0, exceed, None, 1.0, len(losses), None, None, None)  # type: ignore[arg-type]
    stat = TargetStat(target, good_long=len(losses))
    for loss in sorted(losses):
        stat.long_losses[loss] = stat.long_losses.get(loss, 0) + 1
    exact = len(losses) * exceed
    if abs(exact - round(exact)) > 1e-6:
        assert conditional_loss(losses, goal) == stat.pessimistic_loss_ratio


@pytest.mark.parametrize("unsent", [(), (12,), (3, 500)])
def test_a_trial_knows_what_was_discarded_before_it(unsent: tuple[int, ...]) -> None:
    def measure(load: float, seconds: float) -> Trial:
        return replace(Policer(100_000)(load, seconds), discarded=unsent)

    log = Log(measure, 3600)
    rfc2544.search(log, GOAL)
    record = Record("xdp", log=log)
    assert record.discarded == [unsent] * len(log.trials)


def lossy(load: float, seconds: float) -> Trial:
    sent = round(load * seconds)
    return Trial(load, seconds, sent, sent // 1000 + 1)


def test_a_path_that_loses_frames_at_low_load_is_not_searched() -> None:
    for search in MODES:
        with pytest.raises(SearchError, match="frames were lost at the minimum load"):
            found(search, lossy)


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

    bursts = back_to_back(burst, longest=100_000, repetitions=3)
    assert not bursts.unbounded
    assert bursts.mean == pytest.approx(1000, rel=0.02)
    assert bursts.buffer_seconds(rate, drains) == pytest.approx(room / rate, rel=0.02)


def test_a_device_without_a_limit_is_unbounded() -> None:
    bursts = back_to_back(lambda n: Trial(1e6, n / 1e6, n, 0), longest=1000, repetitions=2)
    assert bursts == BackToBack((1000, 1000), unbounded=True)
