"""Scripts that are peers of benches."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from peers import nsh_forward

_ADDRESSES = bytes(range(12))


def _frame(si: int, ethertype: int = 0x894F) -> bytes:
    base = struct.pack("!HBBI", 63 << 6 | 6, 1, 1, 0x123456 << 8 | si)
    context = bytes(range(100, 116))
    return bytes(12) + struct.pack("!H", ethertype) + base + context + b"inside"


@pytest.mark.parametrize("way", [nsh_forward.slices, nsh_forward.fields])
def test_both_ways_take_one_off_the_index(way: Callable[[bytes, bytes], bytes | None]) -> None:
    assert way(_frame(255), _ADDRESSES) == _ADDRESSES + _frame(254)[12:]
    assert way(_frame(1), _ADDRESSES) is None
    assert way(_frame(255, ethertype=0x0800), _ADDRESSES) is None
