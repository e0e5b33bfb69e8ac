"""Capture files that end anywhere, and filters."""

from __future__ import annotations

import shutil
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.node.pcap import fault, whole

HEADS = {order: struct.pack(f"{order}IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1) for order in "<>"}


def file(order: str, *frames: bytes) -> bytes:
    records = (struct.pack(f"{order}IIII", 1, 2, len(f), len(f) + 9) + f for f in frames)
    return HEADS[order] + b"".join(records)


@given(st.sampled_from("<>"), st.lists(st.binary(max_size=60), max_size=5), st.data())
def test_a_cut_file_keeps_its_whole_packets(
    order: str, frames: list[bytes], data: st.DataObject
) -> None:
    content = file(order, *frames)
    cut = data.draw(st.integers(24, len(content)))
    found, packets = whole(content[:cut])
    assert found == file(order, *frames[:packets])
    assert len(found) <= cut
    assert packets == len(frames) or cut < len(file(order, *frames[: packets + 1]))


@given(st.binary(max_size=200))
def test_any_bytes_are_borne(content: bytes) -> None:
    found, packets = whole(content)
    assert content.startswith(found)
    assert packets >= 0


def test_a_frame_of_impossible_size_ends_it() -> None:
    damaged = HEADS["<"] + struct.pack("<IIII", 1, 2, 1 << 31, 1 << 31) + bytes(100)
    assert whole(damaged) == (HEADS["<"], 0)


@pytest.mark.skipif(not shutil.which("tcpdump"), reason="no tcpdump")
def test_filters_are_compiled() -> None:
    assert fault("udp port 4790 and host 10.0.0.1") is None
    assert fault("") is None
    assert "syntax error" in (fault("udp port and") or "")
    assert fault("-w /tmp/x") is not None, "an option is no expression"
