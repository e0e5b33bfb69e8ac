"""Frames of a train in a capture of `hawserd load`: number, sending and arrival of each.

The payload is that of crates/wire/src/load.rs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hawser.node import pcap
from hawser.probe.base import ProbeError
from hawser.stats.bandwidth import Arrivals, Train

Values = NDArray[np.float64]

BODY: Final = 0
FILL: Final = 1
"""Flows of a train."""
_HEADER, _RECORD = 24, 16
_NANOSECONDS = 0xA1B23C4D
_MAGIC = b"HW"
_PAYLOAD = 18
_WRAP_NS = 1 << 40
_BEFORE: Final = {0x0800: 20, 0x86DD: 40}
"""Length of the IP header by EtherType; the generator writes no options."""


@dataclass(frozen=True)
class Frame:
    """A frame that arrived."""

    flow: int
    sequence: int
    sent_ns: int
    """`CLOCK_MONOTONIC` of the sender, modulo 2^40."""
    received_ns: int


def frames(content: bytes, run: int) -> Iterator[Frame]:
    """Read the frames of a run; others, and what the file lacks at its end, are left out.

    Args:
        content: a pcap file with nanoseconds.
        run: number of the run.
    """
    content, count = pcap.whole(content)
    order = next((o for o in "<>" if content.startswith(struct.pack(f"{o}I", _NANOSECONDS))), None)
    if order is None:
        return
    at = _HEADER
    for _ in range(count):
        seconds, part, size, _ = struct.unpack_from(f"{order}IIII", content, at)
        data = content[at + _RECORD : at + _RECORD + size]
        at += _RECORD + size
        payload = _payload(data)
        if payload is None:
            continue
        flow_time, run_sequence = struct.unpack(">QQ", payload[2:])
        if run_sequence >> 48 == run:
            yield Frame(
                flow=flow_time >> 40,
                sequence=run_sequence & ((1 << 48) - 1),
                sent_ns=flow_time & (_WRAP_NS - 1),
                received_ns=seconds * 1_000_000_000 + part,
            )


def _payload(data: bytes) -> bytes | None:
    kind = int.from_bytes(data[12:14])
    if kind not in _BEFORE:
        return None
    start = 14 + _BEFORE[kind] + 8
    payload = data[start : start + _PAYLOAD]
    return payload if len(payload) == _PAYLOAD and payload.startswith(_MAGIC) else None


def arrivals(train: Train, found: Iterator[Frame], sent: Mapping[int, int]) -> Arrivals:
    """Put frames in the order of sending, with those that did not come.

    Args:
        train: what was to be sent.
        found: the frames that came.
        sent: frames really sent, by flow.

    Raises:
        ProbeError: fewer than two frames of the body came.
    """
    first: dict[tuple[int, int], Frame] = {}
    for frame in found:
        if frame.sequence < sent.get(frame.flow, 0):
            first.setdefault((frame.flow, frame.sequence), frame)
    if sum(1 for flow, _ in first if flow == BODY) < 2:
        raise ProbeError("nothing of a train came")
    origin = next(iter(first.values()))
    times, came = [], []
    for flow, step in ((BODY, train.rate), (FILL, train.fill_rate)):
        mine = sorted((n, frame) for (of, n), frame in first.items() if of == flow)
        numbers = np.arange(sent.get(flow, 0))
        received = np.full(len(numbers), np.inf)
        left = _due(origin, len(numbers), 8 * train.size / step, mine)
        for number, frame in mine:
            received[number] = (frame.received_ns - origin.received_ns) / 1e9
        times.append(left)
        came.append(received)
    at, received = np.concatenate(times), np.concatenate(came)
    order = np.argsort(at, kind="stable")
    return Arrivals(train, at[order], received[order])


def _due(origin: Frame, count: int, interval: float, came: list[tuple[int, Frame]]) -> Values:
    """When the frames of a flow were sent, seconds; those that did not come between the others."""
    if not came:
        return np.asarray(np.arange(count) * interval, dtype=np.float64)
    numbers = np.array([number for number, _ in came])
    half = _WRAP_NS // 2
    since = [(frame.sent_ns - origin.sent_ns + half) % _WRAP_NS - half for _, frame in came]
    every = np.arange(count)
    outside = np.minimum(0, every - numbers[0]) + np.maximum(0, every - numbers[-1])
    inside = np.interp(every, numbers, np.array(since) / 1e9)
    return np.asarray(inside + outside * interval, dtype=np.float64)
