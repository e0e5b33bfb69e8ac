"""Program: constant flows of UDP from one node, each sent at its rate in steps of a millisecond.

Runs by itself, in a namespace of a lab, until it is ended; it imports nothing of Hawser.

    source.py '{"state": FILE, "take": [ADDRESS],
                "send": [{"local": ADDRESS, "remote": ADDRESS, "rate": BITS, "frame": BYTES}]}'

BITS are a second's, of whole frames; BYTES are a frame's. FILE tells how much was due and how much
was not sent.

A step's datagrams of one flow go to the kernel in one call, which cuts them (UDP segmentation
offload). Time that the program did not get is made up for by at most `_CATCH_UP` seconds of
traffic; what is more is left out and counted. What is taken is thrown away by a filter at the
socket, before it is queued.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

STEP = 0.001
"""Seconds between two turns."""
_CATCH_UP = 0.05
"""Seconds. The flow's own queue at the bottleneck takes that much at once."""
_REPORT = 0.25
"""Seconds between two reports."""
_HEADERS = 14 + 20 + 8
"""Bytes of a frame that are no payload: Ethernet, IPv4, UDP."""
_DISCARD = 9
"""Port of the discard service (RFC 863)."""
_SOL_UDP, _UDP_SEGMENT = 17, 103
_SO_ATTACH_FILTER = 26
_MOST_SEGMENTS, _MOST_BYTES = 64, 60_000
"""Of one call (linux/udp.h: UDP_MAX_SEGMENTS)."""


class Flow:
    """One flow: how much is due, and how much was sent."""

    def __init__(self, rate: float, frame: int, send: Callable[[int], int], now: float) -> None:
        """Begin a flow.

        Args:
            rate: bits of frames a second.
            frame: bytes of a frame.
            send: sends so many frames at once, and says how many it did.
            now: time, s.
        """
        self._interval = 8 * frame / rate
        self._send = send
        self._next = now
        self.due = 0
        self.unsent = 0

    def step(self, now: float) -> None:
        """Send what is due at a time."""
        count = int((now - self._next) / self._interval)
        if count <= 0:
            return
        self._next += count * self._interval
        self.due += count
        most = max(1, int(_CATCH_UP / self._interval))
        self.unsent += count - self._send(min(count, most))


def sender(local: str, remote: str, frame: int) -> Callable[[int], int]:
    """Give what sends frames of a flow and says how many: many in one call where that works."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    sock.bind((local, 0))
    sock.connect((remote, _DISCARD))
    sock.setblocking(False)
    size = frame - _HEADERS
    most = min(_MOST_BYTES // size, _MOST_SEGMENTS) if _cuts(sock, size) else 1
    payload = memoryview(bytes(size * most))

    def send(count: int) -> int:
        sent = 0
        # What the socket has no room for is not sent; who takes it may come later.
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            while sent < count:
                now = min(count - sent, most)
                sock.send(payload[: size * now])
                sent += now
        return sent

    return send


def _cuts(sock: socket.socket, size: int) -> bool:
    try:
        sock.setsockopt(_SOL_UDP, _UDP_SEGMENT, size)
    except OSError:
        return False
    return True


def taker(local: str) -> socket.socket:
    """Take datagrams, and throw them away before they are queued: a filter that keeps 0 bytes."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    keep_nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(keep_nothing))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    sock.bind((local, _DISCARD))
    return sock


def run(flows: Sequence[Flow], report: Path, over: Callable[[], bool]) -> None:
    """Keep all flows going until it is over."""
    turn = told = time.monotonic()
    while not over():
        turn = max(turn + STEP, time.monotonic() - _CATCH_UP)
        time.sleep(max(0.0, turn - time.monotonic()))
        now = time.monotonic()
        for flow in flows:
            flow.step(now)
        if now - told >= _REPORT:
            told = now
            _tell(flows, report)


def _tell(flows: Sequence[Flow], report: Path) -> None:
    counts = {"due": sum(f.due for f in flows), "unsent": sum(f.unsent for f in flows)}
    temporary = report.with_suffix(".tmp")
    temporary.write_text(json.dumps(counts), encoding="utf-8")
    temporary.replace(report)


def _hurry() -> None:
    """Go before ordinary programs, in real time where a control group allows it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def main(task: Mapping[str, Any]) -> None:
    """Send and take what the task says, until told to end."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    _hurry()
    taken = [taker(address) for address in task["take"]]
    now = time.monotonic()
    flows = [
        Flow(each["rate"], each["frame"], sender(each["local"], each["remote"], each["frame"]), now)
        for each in task["send"]
    ]
    report = Path(task["state"])
    _tell(flows, report)
    if flows:
        run(flows, report, lambda: bool(ended))
    while not ended:
        signal.pause()
    for sock in taken:
        sock.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
