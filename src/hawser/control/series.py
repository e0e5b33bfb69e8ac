"""Statistics of gateways: names of series, and reports packed for the way to the controller. Pure.

A series is named by its kind, what it is about, and its metric: `path/b2/0/1/rtt` is the round-trip
time of member path 1 of group 0 to branch b2. A report has one value of every series for one
second; in network byte order:

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |                        sequence (64 bits)                     |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |                time, seconds since 1970 (64 bits)             |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |     values (binary32 each), as many as names; NaN for none    |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

NAME: Final = r"^[a-z]{1,16}(/[A-Za-z0-9_.@-]{1,32}){1,6}$"
"""Regular expression of a series' name."""
LATEST_TIME: Final = 2**40
"""Times of reports are below this number of seconds, some 35 000 years."""


@dataclass(frozen=True)
class Metric:
    """What a series measures."""

    unit: str
    """As in `docs/guide/controller.md`; empty for a ratio."""
    exported: str
    """Its name for Prometheus, after `hawser_`."""
    meaning: str


@dataclass(frozen=True)
class Kind:
    """What series are about."""

    labels: tuple[str, ...]
    """What the parts of a name between kind and metric say."""
    metrics: Mapping[str, Metric]


_SENT = "Inner bytes sent to the peer"
KINDS: Final[Mapping[str, Kind]] = {
    "path": Kind(
        ("peer", "group", "member"),
        {
            "rate": Metric("bit/s", "path_rate_bps", "Tunnel bytes sent on the path"),
            "capacity": Metric("bit/s", "path_capacity_bps", "Rate that the path carries"),
            "rtt": Metric("ms", "path_rtt_ms", "Smoothed round-trip time"),
            "jitter": Metric("ms", "path_jitter_ms", "Variation of the round-trip time"),
            "loss": Metric("", "path_loss_ratio", "Share of bytes lost"),
            "queue": Metric("byte", "path_queue_bytes", "Bytes in the path's queue"),
            "share": Metric("", "path_share_ratio", "Share of the group's bytes"),
            "up": Metric("", "path_up", "Whether the peer answers on the path"),
        },
    ),
    "class": Kind(
        ("peer", "class"),
        {
            "sent": Metric("bit/s", "class_sent_bps", _SENT),
            "received": Metric("bit/s", "class_received_bps", "Inner bytes from the peer"),
            "dropped": Metric("1/s", "class_dropped_per_s", "Records dropped"),
            "queue": Metric("byte", "class_queue_bytes", "Bytes that wait for a connection"),
        },
    ),
    "port": Kind(
        ("port",),
        {
            "sent": Metric("bit/s", "port_sent_bps", "Bytes sent by the interface"),
            "received": Metric("bit/s", "port_received_bps", "Bytes received by the interface"),
            "dropped": Metric("1/s", "port_dropped_per_s", "Packets dropped, both directions"),
        },
    ),
    "drop": Kind(
        ("at", "cause"),
        {"dropped": Metric("1/s", "dropped_per_s", "Records dropped, by cause")},
    ),
}
"""All series of this version. Newer gateways may have others."""


@dataclass(frozen=True)
class Report:
    """Values of all series of a gateway in one second."""

    sequence: int
    """Counts the reports of one run of the agent from 0."""
    time: int
    """Seconds since 1970, by the gateway's clock."""
    values: tuple[float, ...]
    """NaN where there is none."""


_HEAD = struct.Struct("!Qq")
_VALUE = 4


def pack(report: Report) -> bytes:
    """Write a report."""
    body = struct.pack(f"!{len(report.values)}f", *report.values)
    return _HEAD.pack(report.sequence, report.time) + body


def unpack(data: bytes, count: int) -> Report:
    """Read a report of so many series.

    Raises:
        ValueError: it has another number of values, its time is none, or a value is infinite.
    """
    wanted = _HEAD.size + _VALUE * count
    if len(data) != wanted:
        raise ValueError(f"found {len(data)} bytes, expected {wanted} for {count} series")
    sequence, time = _HEAD.unpack_from(data)
    if not 0 <= time < LATEST_TIME:
        raise ValueError(f"found the time {time}")
    values = struct.unpack_from(f"!{count}f", data, _HEAD.size)
    if any(map(math.isinf, values)):
        raise ValueError("found an infinite value")
    return Report(sequence, time, values)


def described(name: str) -> tuple[Metric, Mapping[str, str]] | None:
    """Give metric and labels of a series; None where this version does not know its kind."""
    first, *middle = name.split("/")
    last = middle.pop() if middle else ""
    kind = KINDS.get(first)
    if kind is None or last not in kind.metrics or len(middle) != len(kind.labels):
        return None
    return kind.metrics[last], dict(zip(kind.labels, middle, strict=True))


def name_of(kind: str, about: Sequence[object], metric: str) -> str:
    """Give the name of a series."""
    return "/".join((kind, *map(str, about), metric))
