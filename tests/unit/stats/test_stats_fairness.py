from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.stats.fairness import jain

SHARES = st.lists(st.floats(0, 1e100), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        ([5.0], 1.0),
        ([2.0, 2.0, 2.0], 1.0),
        ([1.0, 0.0, 0.0, 0.0], 0.25),
        ([3.0, 1.0], 0.8),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_index(shares: list[float], index: float | None) -> None:
    assert jain(shares) == (None if index is None else pytest.approx(index))


@given(SHARES)
def test_it_is_between_one_and_one_nth(shares: list[float]) -> None:
    index = jain(shares)
    if index is not None:
        assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


@given(SHARES, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(shares: list[float], factor: float) -> None:
    index = jain(shares)
    scaled = jain([factor * share for share in shares])
    assert (index is None) == (scaled is None) or min(shares) < 1e-300
    if index is not None and scaled is not None:
        assert scaled == pytest.approx(index)
