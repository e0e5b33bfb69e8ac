"""How often the OpenFlow controller reads a switch."""

from __future__ import annotations

import pytest

from hawser.openflow.session import pause


@pytest.mark.parametrize(
    ("took", "expected"),
    [(0.003, 1), (0.1, 1), (0.5, 5), (1, 10), (4.9, 10)],
    ids=["quick", "a tenth", "large", "longest", "busy machine"],
)
def test_a_switch_is_read_for_a_tenth_of_the_time_but_every_ten_seconds(
    took: float, expected: float
) -> None:
    assert pause(1, took) == pytest.approx(expected)


def test_a_switch_is_never_read_more_often_than_wanted() -> None:
    assert pause(60, 4.9) == 60
