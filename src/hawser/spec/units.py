"""Physical quantities: numbers with a unit.

In a file, a quantity is text with a unit (`10 Mbit/s`, `35 ms`, `75 kB`, `0.1 %`). Everywhere else
it is a `float` in the base unit. Units of rate and size are decimal (SI).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from hawser.spec.errors import found

_TEXT = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)[ \t]*(\S*)", re.ASCII)
_LONGEST = 64
"""Longest text of a quantity. The text of a `float` has at most 24 characters."""


class Quantity(float):
    """A finite, non-negative number in a base unit, parsed from text such as `10 Mbit/s`."""

    UNITS: ClassVar[dict[str, str]] = {}
    """Accepted unit -> factor to the base unit, smallest first."""
    EXAMPLE: ClassVar[str] = ""
    MAXIMUM: ClassVar[float] = 1
    ZERO: ClassVar[bool] = True
    """Whether zero is a meaningful value."""
    WHOLE: ClassVar[bool] = False
    """Whether only whole numbers of the base unit are meaningful; others are rounded."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parse text with a unit.

        Raises:
            ValueError: the text is invalid; one sentence says what was found and expected.
        """
        if isinstance(value, cls):
            return value
        number, unit = _split(value)
        if number is None or unit not in cls.UNITS:
            raise ValueError(f"found {found(value)}, {cls._expected(unit)}")
        base = float(number * Decimal(cls.UNITS[unit]))
        base = float(round(base)) if cls.WHOLE and base < 1e300 else base
        if not cls._in_range(base):
            raise ValueError(f"found {found(value)}, expected {cls._range()}")
        return cls(base)

    @classmethod
    def _expected(cls, unit: str | None) -> str:
        units = ", ".join(cls.UNITS)
        known = f"expected a number with a unit: {units} (for example {cls.EXAMPLE!r})"
        near = [u for u in cls.UNITS if unit and u.casefold() == _spelt(unit)]
        return f"{known}; did you mean {near[0]!r}?" if near else known

    @classmethod
    def _in_range(cls, base: float) -> bool:
        return 0 <= base <= cls.MAXIMUM and (base > 0 or cls.ZERO)

    @classmethod
    def _range(cls) -> str:
        low = "zero or more" if cls.ZERO else "more than zero"
        return f"{low} and at most {cls(cls.MAXIMUM)}"

    def __str__(self) -> str:
        """Format the value so that it parses back to exactly the same number.

        The unit is the largest one in which the number is at least 1. Minutes and hours are used
        only for whole numbers.
        """
        value = Decimal(repr(float(self)))
        numbers = {unit: value / Decimal(factor) for unit, factor in self.UNITS.items()}
        unit = next((u for u, n in reversed(numbers.items()) if _fits(u, n)), next(iter(numbers)))
        return f"{_written(numbers[unit])} {unit}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401 (pydantic's signature)
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        units = "|".join(re.escape(unit) for unit in cls.UNITS)
        return {
            "type": "string",
            "pattern": rf"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*({units})\s*$",
            "examples": [cls.EXAMPLE],
        }


def _fits(unit: str, number: Decimal) -> bool:
    """Tell whether a number is easy to read in this unit."""
    return number >= 1 and (unit not in ("min", "h") or number == int(number))


def _spelt(unit: str) -> str:
    """Normalise a variant spelling: `Mbps` and `mb/s` mean megabits per second."""
    spelt = unit.casefold().replace("bps", "b/s")
    return spelt if "bit" in spelt else spelt.replace("b/s", "bit/s")


def _written(number: Decimal) -> str:
    text = format(number.normalize(), "f")
    return text if len(text) < 24 else str(number.normalize())


def _split(value: object) -> tuple[Decimal | None, str | None]:
    """Split text into a number and a unit; both are None if there is no number."""
    text = value.strip() if isinstance(value, str) and len(value) <= _LONGEST else ""
    match = _TEXT.fullmatch(text)
    return (Decimal(match[1]), match[2]) if match else (None, None)


class Rate(Quantity):
    """Bits a second, counted on the wire (Ethernet frames without preamble and gap)."""

    UNITS: ClassVar[dict[str, str]] = {
        "bit/s": "1", "kbit/s": "1e3", "Mbit/s": "1e6", "Gbit/s": "1e9",
    }  # fmt: skip
    EXAMPLE: ClassVar[str] = "10 Mbit/s"
    MAXIMUM: ClassVar[float] = 1e12
    ZERO: ClassVar[bool] = False


class Duration(Quantity):
    """Seconds."""

    UNITS: ClassVar[dict[str, str]] = {
        "ns": "1e-9", "us": "1e-6", "ms": "1e-3", "s": "1", "min": "60", "h": "3600",
    }  # fmt: skip
    EXAMPLE: ClassVar[str] = "35 ms"
    MAXIMUM: ClassVar[float] = 1e7


class Size(Quantity):
    """Bytes, decimal."""

    UNITS: ClassVar[dict[str, str]] = {"B": "1", "kB": "1e3", "MB": "1e6", "GB": "1e9"}
    EXAMPLE: ClassVar[str] = "75 kB"
    MAXIMUM: ClassVar[float] = 4e9  # a queue's limit is 32 bits in the kernel
    ZERO: ClassVar[bool] = False
    WHOLE: ClassVar[bool] = True


class Ratio(Quantity):
    """A share between 0 and 1, written in percent."""

    UNITS: ClassVar[dict[str, str]] = {"%": "0.01"}
    EXAMPLE: ClassVar[str] = "0.1 %"
