"""Capture files, which may end within a packet (pcap-savefile(5)), and filters for tcpdump."""

from __future__ import annotations

import struct
import subprocess
from typing import Final

_HEADER: Final = 24
_RECORD: Final = 16
_SNAP: Final = 16
"""Where the header has the limit of bytes kept of a packet."""
_MAGIC: Final = (0xA1B2C3D4, 0xA1B23C4D)
"""With microseconds, and with nanoseconds."""
_LARGEST: Final = 262_144
"""Bytes of a frame that a file may have (MAXIMUM_SNAPLEN)."""
_SECONDS: Final = 10


def whole(content: bytes) -> tuple[bytes, int]:
    """Cut a file after its last complete packet.

    Returns:
        The file and its number of packets; nothing and 0 where it is none.
    """
    order = _order(content)
    if order is None:
        return b"", 0
    end, packets = _HEADER, 0
    while len(content) - end >= _RECORD:
        (size,) = struct.unpack_from(f"{order}I", content, end + 8)
        if size > _LARGEST or end + _RECORD + size > len(content):
            break
        end += _RECORD + size
        packets += 1
    return _unlimited(content[:end], order), packets


def _unlimited(content: bytes, order: str) -> bytes:
    """Let the header allow packets of any length, however many bytes of each were kept.

    Some readers take its limit of kept bytes for one of the packets' own lengths, and refuse files
    of packets that were cut.
    """
    return content[:_SNAP] + struct.pack(f"{order}I", _LARGEST) + content[_SNAP + 4 :]


def _order(content: bytes) -> str | None:
    """Byte order of a file; None if it is none of this format."""
    if len(content) < _HEADER:
        return None
    return next((o for o in "<>" if struct.unpack_from(f"{o}I", content)[0] in _MAGIC), None)


def fault(expression: str) -> str | None:
    """Say what is wrong with an expression of pcap-filter(7); None if nothing, or no tcpdump."""
    command = ["tcpdump", "-y", "EN10MB", "-d", "--", expression]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        return "tcpdump does not come to an end with it"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return None if done.returncode == 0 else (lines[-1] if lines else "tcpdump refuses it")
