"""Available bandwidth of simulated paths, whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.path_simulation import Case, Cross, estimated
from hawser.stats.bandwidth import Arrivals, Limits, Search, Train, is_disturbed, passive

MBIT = 1e6
PLAIN = Case(
    seed=1,
    port=60 * MBIT,
    rate=50 * MBIT,
    line=50 * MBIT,
    burst_s=0.0,
    queue_s=0.1,
    load=0.5,
    cross="constant",
    noise_s=1e-6,
    stalls=0,
)
CASES = {
    "idle": replace(PLAIN, load=0.0),
    "half loaded": PLAIN,
    "four fifths loaded": replace(PLAIN, load=0.8),
    "1 Mbit/s": replace(PLAIN, port=1.5 * MBIT, rate=MBIT, line=MBIT, load=0.0),
    "1 Gbit/s": replace(PLAIN, port=1e9, rate=1e9, line=1e9),
    "shaper with a bucket of 20 ms": replace(PLAIN, line=500 * MBIT, burst_s=0.02),
    "loaded shaper": replace(PLAIN, line=500 * MBIT, burst_s=0.02, load=0.7),
    "short queue": replace(PLAIN, queue_s=0.015),
    "port declared too fast": replace(PLAIN, port=150 * MBIT),
}


@pytest.mark.parametrize("name", CASES)
def test_steady_traffic_leaves_what_is_estimated(name: str) -> None:
    case = CASES[name]
    found = estimated(case)
    truth = case.rate * (1 - case.load)
    assert found.truth == pytest.approx(truth)
    assert found.estimate.available == pytest.approx(truth, rel=0.1)
    assert found.estimate.low <= truth <= found.estimate.high
    assert found.estimate.high - found.estimate.low < 0.5 * truth


@pytest.mark.parametrize("cross", ["poisson", "bursty"])
def test_varying_traffic_is_in_the_interval(cross: Cross) -> None:
    """Nominally 95 %; of 40 paths at most 6 may be outside (probability 1 %)."""
    outside = 0
    for seed in range(40):
        found = estimated(replace(PLAIN, seed=seed, cross=cross, load=0.02 * seed))
        outside += not found.estimate.low <= found.truth <= found.estimate.high
    assert outside <= 6


@pytest.mark.parametrize("stalls", [3, 12, 40])
def test_a_receiver_that_stands_still_gives_a_wider_interval_not_a_wrong_one(stalls: int) -> None:
    held, disturbed = 0, 0
    for seed in range(10):
        found = estimated(replace(PLAIN, seed=seed, stalls=stalls))
        held += found.estimate.low <= found.truth <= found.estimate.high
        disturbed += found.disturbed
    assert held >= 9
    assert disturbed > 0


def test_a_train_is_disturbed_by_a_receiver_that_stands_still() -> None:
    train = Train(1514, 20 * MBIT, 100, 40 * MBIT, 30)
    sent = train.times()
    arrivals = Arrivals(train, sent, sent + 0.02)
    late = np.where(sent > 0.02, np.maximum(sent + 0.02, 0.5), sent + 0.02)
    assert not is_disturbed(arrivals, 60 * MBIT)
    assert is_disturbed(Arrivals(train, sent, late), 60 * MBIT)


def test_the_offset_of_the_clocks_does_not_matter() -> None:
    found = [estimated(PLAIN, offset=offset).estimate.available for offset in (0.0, -1e3, 1e3)]
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-3)


def test_a_path_of_which_nothing_came_may_have_anything() -> None:
    search = Search(Limits(10 * MBIT))
    while (train := search.next()) is not None:
        search.take(Arrivals(train, train.times(), np.full(len(train.times()), np.inf)))
    found = search.estimate()
    assert (found.low, found.high, found.trains) == (0.0, 10 * MBIT, 0)


DELAYS = st.lists(st.one_of(st.floats(-1, 1), st.just(math.inf)), min_size=1, max_size=20)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e5, 1e10), st.floats(0.001, 0.2), st.floats(2, 600), st.lists(DELAYS, min_size=1))
@example(1e5, 0.1875, 237.0, [[0.0]])
@example(1e5, 0.2, 600.0, [[-0.5, 0.0, math.inf, -1.0]])
def test_no_answer_of_a_path_breaks_a_promise(
    port: float, share: float, seconds: float, answers: list[list[float]]
) -> None:
    """Arrival times may be anything: traffic stays limited, bounds in order and below the port."""
    search = Search(Limits(port, share, seconds))
    for number in range(100):
        train = search.next()
        if train is None:
            break
        sent = train.times()
        assert len(sent) <= 50_000
        assert train.seconds < 10
        shape = np.array(answers[number % len(answers)])
        search.take(Arrivals(train, sent, sent + np.resize(shape, len(sent))))
        found = search.estimate()
        assert 0 <= found.low <= found.available <= found.high <= port * (1 + 1e-9)
        assert found.capacity is None or 0 < found.capacity <= port * (1 + 1e-9)
    assert search.next() is None
    assert search.spent <= share * seconds * port


def test_a_loaded_path_is_estimated_by_its_median() -> None:
    rates = [9.0, 10.0, 11.0, 10.2, 9.8, 10.1, 9.9, 30.0]
    found = passive([MBIT * rate for rate in rates], 100 * MBIT)
    assert found.available == pytest.approx(10.05 * MBIT)
    assert (found.low, found.high) == (9 * MBIT, 30 * MBIT)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_values_of_a_loaded_path_tell_no_error(count: int) -> None:
    found = passive([MBIT] * count, 100 * MBIT)
    assert (found.low, found.high) == (0.0, 100 * MBIT)


def test_the_passive_interval_holds_its_level() -> None:
    chance = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        found = passive(list(chance.lognormal(0, 0.5, 20)), 100.0)
        held += found.low <= 1.0 <= found.high
    assert held >= 0.95 * 2000 - 30
