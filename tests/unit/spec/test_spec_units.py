"""Quantities: text with a unit and back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.spec.units import Duration, Quantity, Rate, Ratio, Size

KINDS: list[type[Quantity]] = [Rate, Duration, Size, Ratio]


@st.composite
def quantities(draw: st.DrawFn) -> Quantity:
    kind = draw(st.sampled_from(KINDS))
    number = draw(st.floats(0, kind.MAXIMUM, exclude_min=not kind.ZERO))
    return kind(max(1, round(number))) if kind.WHOLE else kind(number)


@given(quantities())
def test_what_is_written_reads_as_itself(quantity: Quantity) -> None:
    again = type(quantity).parse(str(quantity))
    assert again == quantity
    assert type(again) is type(quantity)


@given(st.sampled_from(KINDS), st.text())
def test_any_text_is_a_quantity_or_a_mistake(kind: type[Quantity], text: str) -> None:
    with contextlib.suppress(ValueError):
        assert 0 <= kind.parse(text) <= kind.MAXIMUM


@pytest.mark.parametrize(
    ("quantity", "base", "written"),
    [
        (Rate.parse("10 Mbit/s"), 1e7, "10 Mbit/s"),
        (Rate.parse("1.5Gbit/s"), 1.5e9, "1.5 Gbit/s"),
        (Rate.parse(" 2500 bit/s "), 2500, "2.5 kbit/s"),
        (Duration.parse("35 ms"), 0.035, "35 ms"),
        (Duration.parse("1.1 ms"), 0.0011, "1.1 ms"),
        (Duration.parse("90 s"), 90, "90 s"),
        (Duration.parse("1 h"), 3600, "1 h"),
        (Duration.parse("0 s"), 0, "0 ns"),
        (Size.parse("75.7 kB"), 75_700, "75.7 kB"),
        (Size.parse("1514.4 B"), 1514, "1.514 kB"),
        (Ratio.parse("0.1 %"), 0.001, "0.1 %"),
        (Ratio.parse("100%"), 1, "100 %"),
    ],
)
def test_units(quantity: Quantity, base: float, written: str) -> None:
    assert float(quantity) == base
    assert str(quantity) == written


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Rate, "10", "expected a number with a unit"),
        (Rate, 10, "expected a number with a unit"),
        (Rate, "10 Mbps", "did you mean 'Mbit/s'?"),
        (Rate, "10 mb/s", "did you mean 'Mbit/s'?"),
        (Rate, "0 bit/s", "expected more than zero"),
        (Rate, "2 Tbit/s", "expected a number with a unit"),
        (Rate, "2e5 Gbit/s", "at most"),
        (Duration, "-1 s", "expected zero or more"),
        (Duration, "1e999 s", "at most"),
        (Duration, "1e9999 s", "expected a number with a unit"),
        (Duration, "nan s", "expected a number with a unit"),
        (Duration, "٣ s", "expected a number with a unit"),
        (Size, "0.2 B", "expected more than zero"),
        (Size, "5 KB", "did you mean 'kB'?"),
        (Ratio, "101 %", "at most 100 %"),
        (Ratio, None, "found None"),
        (Size, "1" + " " * 1_000_000 + "x", "found '1   "),
    ],
)
def test_mistakes(kind: type[Quantity], value: object, message: str) -> None:
    with pytest.raises(ValueError, match="found") as caught:
        kind.parse(value)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 250
