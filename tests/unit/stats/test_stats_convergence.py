"""Failover times from what had arrived when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.stats.convergence import WINDOW, Arrivals

RATE = 10e6


def arrivals(*parts: tuple[float, float], every: float = 0.02) -> Arrivals:
    """Parts of seconds and bit/s, one after the other, read now and again."""
    readings, at, moved = [(0.0, 0.0)], 0.0, 0.0
    for seconds, rate in parts:
        for _ in range(round(seconds / every)):
            at, moved = at + every, moved + rate * every / 8
            readings.append((at, moved))
    return Arrivals(readings)


def test_an_outage_is_as_long_as_it_was() -> None:
    found = arrivals((2, RATE), (0.2, 0), (2, 0.75 * RATE)).recovery(2, 4, 0.75 * RATE)
    assert found is not None
    assert 0.2 <= found <= 0.2 + WINDOW + 0.02


def test_what_arrives_at_once_ends_no_outage_earlier() -> None:
    held_back = arrivals((2, RATE), (0.2, 0), (0.02, 10 * RATE), (2, RATE))
    assert 0.2 <= (held_back.recovery(2, 4, RATE) or 0) <= 0.2 + WINDOW + 0.02


def test_a_rate_that_never_fell_took_no_time() -> None:
    assert arrivals((4, RATE)).recovery(2, 4, RATE) == 0


def test_what_was_under_way_hides_no_outage() -> None:
    found = arrivals((2.1, RATE), (0.4, 0), (2, RATE)).recovery(2, 4, RATE)
    assert found is not None
    assert 0.5 <= found <= 0.5 + WINDOW + 0.02


def test_a_moment_at_the_level_is_no_recovery() -> None:
    limping = arrivals((2, RATE), (0.2, 0), (0.06, RATE), (0.5, 0.1 * RATE), (2, RATE))
    assert 0.7 <= (limping.recovery(2, 4.5, RATE) or 0) <= 0.85


@pytest.mark.parametrize("after", [0.0, 0.5 * RATE, 0.85 * RATE])
def test_what_does_not_come_back_has_no_time(after: float) -> None:
    assert arrivals((2, RATE), (2, after)).recovery(2, 4, RATE) is None


def test_nothing_to_come_back_to_has_no_time() -> None:
    assert arrivals((2, RATE), (2, 0)).recovery(2, 4, 0) is None


def test_nothing_was_read() -> None:
    assert Arrivals([]).recovery(2, 4, RATE) is None
    assert Arrivals([]).steady(0, 4) == 0


def test_steady_is_what_it_settled_at() -> None:
    assert arrivals((2, RATE), (1, 0), (3, RATE / 2)).steady(2, 6) == pytest.approx(RATE / 2)


def test_the_lowest_second() -> None:
    dip = arrivals((2, RATE), (0.5, 0), (2, RATE))
    assert dip.least(0, 4.5, 1) == pytest.approx(RATE / 2)
    assert dip.least(0, 0.5, 1) is None


@given(
    gap=st.integers(4, 60).map(lambda steps: steps / 50),
    before=st.integers(50, 150).map(lambda steps: steps / 50),
    rate=st.floats(1e5, 1e9),
)
def test_never_shorter_than_the_gap(gap: float, before: float, rate: float) -> None:
    found = arrivals((before, rate), (gap, 0), (2, rate)).recovery(before, before + gap + 2, rate)
    assert found is not None
    assert gap - 1e-6 <= found <= gap + WINDOW + 0.02
