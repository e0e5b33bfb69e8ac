"""One-way delays from two captures."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.bench import SampleError
from harness.capture import delays


def written(file: Path, packets: list[tuple[int, int]]) -> Path:
    """Write a capture of (time in ns, number) packets."""
    content = struct.pack("=IHHiIII", 0xA1B2_3C4D, 2, 4, 0, 0, 64, 1)
    for at, number in packets:
        packet = bytes(42) + number.to_bytes(12, "big")
        content += struct.pack("=IIII", *divmod(at, 10**9), len(packet), 1400) + packet
    file.write_bytes(content)
    return file


def test_packets_are_matched_by_their_number(tmp_path: Path) -> None:
    sent = written(tmp_path / "sent", [(1_999_999_000, 1), (2_000_000_000, 2), (3 * 10**9, 3)])
    received = written(tmp_path / "received", [(2_035_000_500, 2), (2_034_999_000, 1)])
    assert delays(sent, received) == [35_000.5, 35_000.0]


def test_nothing_in_common_is_told(tmp_path: Path) -> None:
    sent, received = (written(tmp_path / name, [(5, n)]) for n, name in enumerate("ab"))
    with pytest.raises(SampleError, match="no packet was captured at both ends"):
        delays(sent, received)


def test_no_capture_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(SampleError, match="x is no capture"):
        delays(tmp_path / "x", tmp_path / "x")
