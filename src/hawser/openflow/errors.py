"""What a controller does with the ICMP errors that one switch hands over."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from hawser.openflow.icmp import Found, Returns, Translated, returns, translate
from hawser.overlay.config.openflow import OpenFlowSwitch
from hawser.overlay.sdwan.flow import leaves

PER_SECOND = 100
"""Errors that are looked at in a second, at most (RFC 1812, section 4.3.2.8)."""

_ETHERNET = 14
_IPV4 = b"\x08\x00"


class Errors:
    """Translates errors while the budget lasts, and counts them. Any thread may call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[Found] = Counter()
        self._second, self._used = 0.0, 0
        self._identification = 0
        self._table: tuple[OpenFlowSwitch, Returns] | None = None

    def configure(self, switch: OpenFlowSwitch) -> None:
        """Translate by these entries from now on."""
        self._table = switch, returns(switch.entries)

    def counts(self) -> Mapping[str, int]:
        """Say how many errors became what, since the controller began."""
        with self._lock:
            return {found.value: self._counts[found] for found in Found}

    def take(self, frame: bytes) -> tuple[int, bytes] | None:
        """Take a frame that was handed over.

        Returns:
            The number of a port, and the frame to send by it; none where there is nothing to send.
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
        """Spend one of this second's budget."""
        now = self._clock()
        if now - self._second >= 1:
            self._second, self._used = now, 0
        self._used += 1
        return Found.LIMITED if self._used > PER_SECOND else None
