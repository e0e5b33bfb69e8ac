"""Statistics of a gateway as series of numbers, packed for the way to the controller. Pure.

A packed sample is, in network byte order:

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |                        sequence (64 bits)                     |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |             time, seconds since 1970 (binary64)               |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |             values (binary64 each), as many as names          |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_HEAD = struct.Struct("!Qd")
_VALUE = 8
_KEYS = ("branch", "id", "member", "name")
"""Fields that name an entry of a list."""
_SECTIONS = ("tun", "unauthenticated", "peers", "switch")
_NAMES = frozenset({"id", "member", "mtu"})
"""Numbers that are no measurements."""


@dataclass(frozen=True)
class Sample:
    """Values of all series of a gateway at one time."""

    sequence: int
    """Counts the samples of one connection from 0."""
    time: float
    values: tuple[float, ...]


def series(status: Mapping[str, Any], counters: Mapping[str, Any]) -> dict[str, float]:
    """Give the numbers in a gateway's status and counters, by dotted names.

    A name is made of the fields that lead there, with an entry of a list by its branch, number or
    name: `peers.b2.groups.1.paths.2.rtt_ms`.
    """
    found: dict[str, float] = {}
    for document in (counters, status):
        for section in _SECTIONS:
            found.update(_numbers(section, document.get(section)))
    return found


def _numbers(prefix: str, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        if math.isfinite(value):
            yield prefix, float(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key not in _NAMES:
                yield from _numbers(f"{prefix}.{key}", each)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _numbers(f"{prefix}.{_name(place, each)}", each)


def _name(place: int, entry: object) -> object:
    if isinstance(entry, Mapping):
        return next((entry[key] for key in _KEYS if key in entry), place)
    return place


def pack(sample: Sample) -> bytes:
    """Write a sample."""
    body = struct.pack(f"!{len(sample.values)}d", *sample.values)
    return _HEAD.pack(sample.sequence, sample.time) + body


def unpack(data: bytes, names: Sequence[str]) -> Sample:
    """Read a sample of these series.

    Raises:
        ValueError: it has not as many values as there are names, or some are not finite.
    """
    if len(data) != _HEAD.size + _VALUE * len(names):
        wanted = _HEAD.size + _VALUE * len(names)
        raise ValueError(f"found {len(data)} bytes, expected {wanted} for {len(names)} series")
    sequence, time = _HEAD.unpack_from(data)
    values = struct.unpack_from(f"!{len(names)}d", data, _HEAD.size)
    if not all(map(math.isfinite, (time, *values))):
        raise ValueError("found a value that is not finite")
    return Sample(sequence, time, values)
