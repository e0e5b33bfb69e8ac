"""Handles the ICMP errors that one switch sends to the controller (packet-in)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from hawser.openflow.icmp import Found, Returns, Translated, returns, translate
from hawser.overlay.config.openflow import OpenFlowSwitch
from hawser.overlay.sdwan.flow import leaves

PER_SECOND = 100
"""Most errors that are processed per second (RFC 1812, section 4.3.2.8)."""

_ETHERNET = 14
_IPV4 = b"\x08\x00"


class Errors:
    """Translates errors within the rate limit and counts them. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[Found] = Counter()
        self._second, self._used = 0.0, 0
        self._identification = 0
        self._table: tuple[OpenFlowSwitch, Returns] | None = None

    def configure(self, switch: OpenFlowSwitch) -> None:
        """Use this switch's entries from now on."""
        self._table = switch, returns(switch.entries)

    def counts(self) -> Mapping[str, int]:
        """Give the number of errors by outcome, since the controller started."""
        with self._lock:
            return {found.value: self._counts[found] for found in Found}

    def take(self, frame: bytes) -> tuple[int, bytes] | None:
        """Process a frame from a packet-in.

        Returns:
            The output port's number and the frame to send; None if there is nothing to send.
        """
        if self._table is None:
            return None
        switch, table = self._table
        with self._lock:
            found = self._limited() or self._translated(frame, table)
            self._counts[found if isinstance(found, Found) else Found.TRANSLATED] += 1
        if isinstance(found, Found):
            return None
        port, sender, receiver = leaves(switch, found.entry)
        stations = bytes.fromhex((receiver + sender).replace(":", ""))
        return port, stations + _IPV4 + found.packet

    def _translated(self, frame: bytes, table: Returns) -> Translated | Found:
        self._identification = (self._identification + 1) & 0xFFFF
        return translate(frame[_ETHERNET:], table, self._identification)

    def _limited(self) -> Found | None:
        """Count one error against this second's limit."""
        now = self._clock()
        if now - self._second >= 1:
            self._second, self._used = now, 0
        self._used += 1
        return Found.LIMITED if self._used > PER_SECOND else None
