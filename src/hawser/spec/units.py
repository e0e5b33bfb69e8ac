"""Physical quantities: numbers that know their unit.

A quantity is written in a file as text with its unit (`10 Mbit/s`, `35 ms`, `75 kB`, `0.1 %`) and
is a plain `float` in the base unit everywhere else. Units of rate and size are decimal (SI).
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_TEXT = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d].*?)?\s*")


class Quantity(float):
    """A finite, non-negative number in a base unit, parsed from text such as `10 Mbit/s`."""

    UNITS: ClassVar[dict[str, float]] = {}
    """Accepted unit -> factor to the base unit, smallest first. The first one of factor 1 is the base."""
    EXAMPLE: ClassVar[str] = ""
    MAXIMUM: ClassVar[float] = float("inf")
    ZERO: ClassVar[bool] = True
    """Whether zero is a meaningful value."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read text with a unit.

        Raises:
            ValueError: with one sentence that says what was found and what was expected.
        """
        if isinstance(value, cls):
            return value
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None or match[2] not in cls.UNITS:
            raise ValueError(f"found {value!r}, expected a number with a unit: {cls.expected()}")
        number = float(match[1]) * cls.UNITS[match[2]]
        lowest_ok = number >= 0 if cls.ZERO else number > 0
        if not lowest_ok or number > cls.MAXIMUM or number == float("inf"):
            raise ValueError(f"found {value!r}, expected {cls.expected_range()}")
        return cls(number)

    @classmethod
    def expected(cls) -> str:
        """Say what is accepted, with an example."""
        return f"{', '.join(cls.UNITS)} (for example {cls.EXAMPLE!r})"

    @classmethod
    def expected_range(cls) -> str:
        """Say which values are accepted."""
        low = "zero or more" if cls.ZERO else "more than zero"
        return low if cls.MAXIMUM == float("inf") else f"{low} and at most {cls(cls.MAXIMUM)}"

    def __str__(self) -> str:
        """Write the value in the largest unit that keeps it at or above one; parses back exactly."""
        unit, factor = next(
            ((u, f) for u, f in sorted(self.UNITS.items(), key=lambda item: -item[1]) if self >= f),
            min(self.UNITS.items(), key=lambda item: item[1]),
        )
        number = float(self) / factor
        text = repr(int(number)) if number == int(number) else repr(number)
        if float(text) * factor != float(self):  # a unit's factor may not divide exactly
            unit, number = next(u for u, f in self.UNITS.items() if f == 1), float(self)
            text = repr(number)
        return f"{text} {unit}"

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
            "pattern": rf"^\s*[0-9.]+([eE][+-]?[0-9]+)?\s*({units})\s*$",
            "examples": [cls.EXAMPLE],
        }


class Rate(Quantity):
    """Bits a second, counted on the wire (Ethernet frames without preamble and gap)."""

    UNITS: ClassVar[dict[str, float]] = {
        "bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9,
    }  # fmt: skip
    EXAMPLE: ClassVar[str] = "10 Mbit/s"
    ZERO: ClassVar[bool] = False


class Duration(Quantity):
    """Seconds."""

    UNITS: ClassVar[dict[str, float]] = {
        "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600,
    }  # fmt: skip
    EXAMPLE: ClassVar[str] = "35 ms"


class Size(Quantity):
    """Bytes, decimal."""

    UNITS: ClassVar[dict[str, float]] = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
    EXAMPLE: ClassVar[str] = "75 kB"
    ZERO: ClassVar[bool] = False


class Ratio(Quantity):
    """A share between 0 and 1, written in percent."""

    UNITS: ClassVar[dict[str, float]] = {"%": 0.01}
    EXAMPLE: ClassVar[str] = "0.1 %"
    MAXIMUM: ClassVar[float] = 1
