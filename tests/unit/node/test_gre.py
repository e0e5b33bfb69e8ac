"""What an end of a GRE tunnel takes from the packets it receives (RFC 2784)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hawser.node.gre import payload

INNER = bytes([0x45]) + bytes(range(1, 40))


def packet(flags: int = 0, protocol: int = 0x0800, inner: bytes = INNER, words: int = 5) -> bytes:
    header = bytes([0x40 | words]) + bytes(words * 4 - 1)
    return header + struct.pack("!HH", flags, protocol) + inner


def test_the_inner_packet_is_taken_out() -> None:
    assert payload(packet()) == INNER
    assert payload(packet(words=7)) == INNER, "with IPv4 options"
    assert payload(packet(flags=0x0008)) == INNER, "bits 6 to 12 are ignored on receipt"


@pytest.mark.parametrize(
    "wrong",
    [
        packet(flags=0x8000),
        packet(flags=0x2000),
        packet(flags=0x0400),
        packet(flags=0x0001),
        packet(protocol=0x86DD),
        packet(inner=b""),
        packet(inner=b"\x60" + bytes(39)),
        packet()[:22],
        bytes([0x41]) + bytes(40),
        b"\x60" + bytes(60),
        b"",
    ],
    ids=["checksum", "key", "bit-5", "version", "ipv6", "nothing", "not-ipv4", "short", "header",
         "outer-ipv6", "empty"],
)  # fmt: skip
def test_what_is_not_understood_is_dropped(wrong: bytes) -> None:
    assert payload(wrong) is None


@given(st.binary(max_size=200))
@example(b"\x4f")
def test_any_bytes_are_borne(data: bytes) -> None:
    found = payload(data)
    assert found is None or (found in data and found[0] >> 4 == 4)
