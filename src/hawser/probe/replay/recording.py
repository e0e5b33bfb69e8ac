"""What each side of a chain sends of a recorded capture. Pure: bytes in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from hawser.probe.attacks.packets import CaptureError, Record, Way, records, way_of
from hawser.store.labels import Label

LARGEST: Final = 1 << 28
"""Bytes of a capture: it is read into memory."""
_MOST_FLOWS: Final = 5_000_000
_FILE: Final = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
"""Header of a pcap file of Ethernet frames, nanoseconds (pcap-savefile(5))."""
_HEADER: Final = struct.Struct("<IIII")
_SECOND_NS: Final = 1_000_000_000


@dataclass
class Side:
    """What one side sends: a pcap file, and how many frames are in it."""

    content: bytearray = field(default_factory=lambda: bytearray(_FILE))
    frames: int = 0

    def add(self, time_ns: int, frame: bytes) -> None:
        """Append a frame."""
        self.content += _HEADER.pack(*divmod(time_ns, _SECOND_NS), len(frame), len(frame))
        self.content += frame
        self.frames += 1


@dataclass
class Split:
    """A capture in two directions."""

    first_ns: int = 0
    """Time of the first frame, nanoseconds since 1970."""
    last_ns: int = 0
    forward: Side = field(default_factory=Side)
    """What the ends of flows send that began them."""
    back: Side = field(default_factory=Side)
    skipped: int = 0
    """Frames that are no IP packets."""
    padded: int = 0
    """Frames that the capture has cut, whose rest are zeros."""


def times_ns(content: bytes) -> tuple[int, int]:
    """Give the times of a capture's first and last frame, nanoseconds since 1970.

    Raises:
        CaptureError: it is no pcap file of IP packets, or has none.
    """
    times = [record.time_ns for record in records(content)]
    if not times:
        raise CaptureError("found no frame")
    return min(times), max(times)


def split(content: bytes, forward: bytes, back: bytes) -> Split:
    """Tell both directions apart: a flow is forward as its first packet is.

    Args:
        content: of a pcap file.
        forward: Ethernet addresses, destination and source, of what goes forward.
        back: the same of answers.

    Raises:
        CaptureError: it is no pcap file of IP packets, or has none, or too many flows.
    """
    found = sorted(records(content), key=lambda each: each.time_ns)
    if not found:
        raise CaptureError("found no frame")
    made, known = Split(found[0].time_ns, found[-1].time_ns), dict[Way, bool]()
    for record in found:
        way = way_of(content, record)
        if way is None:
            made.skipped += 1
            continue
        if way not in known:
            if len(known) >= 2 * _MOST_FLOWS:
                raise CaptureError(f"found more than {_MOST_FLOWS} flows")
            begins = _begins(known, way)
            known[way], known[way.back] = begins, not begins
        goes, macs = (made.forward, forward) if known[way] else (made.back, back)
        made.padded += record.length > record.end - record.at
        goes.add(record.time_ns, _frame(content, record, macs))
    return made


def within(rows: Iterable[Label], first_ns: int, last_ns: int) -> list[Label]:
    """Give the labels that are about a time of a recording."""
    first_us, last_us = first_ns // 1000, last_ns // 1000
    return [row for row in rows if row.last_us >= first_us and row.first_us <= last_us]


def moved(row: Label, zero_us: int, began_us: int, speed: float) -> Label:
    """Give a label of a recording with the times at which its packets are sent.

    Args:
        row: the label.
        zero_us: when the recording began, microseconds since 1970.
        began_us: when the replay began.
        speed: how many times as fast it is.
    """
    first, last = (began_us + round((at - zero_us) / speed) for at in (row.first_us, row.last_us))
    return replace(row, first_us=max(0, first), last_us=max(0, last))


def _begins(known: dict[Way, bool], way: Way) -> bool:
    """Whether an unknown way is forward. Later fragments go where packets of both hosts went."""
    if way.source_port or way.target_port:
        hosts = Way(way.protocol, way.source, 0, way.target, 0)
        known.setdefault(hosts, True)
        known.setdefault(hosts.back, False)
    return known.get(way, True)


def _frame(content: bytes, record: Record, macs: bytes) -> bytes:
    return macs + record.kind(content) + bytes(max(0, record.length - (record.end - record.at)))
