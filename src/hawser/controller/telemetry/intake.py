"""Reports of one connection: from frames to the store, and what to acknowledge."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from hawser.control.link import Acknowledge, Hello, Series
from hawser.control.series import unpack
from hawser.controller.telemetry.latest import Latest, Statistics
from hawser.store.statistics.index import Layout
from hawser.store.statistics.store import StatisticsStore

_log = logging.getLogger(__name__)

_CLOCK_S: Final = 2.0
"""Clocks that differ by less count as equal."""


class Intake:
    """Stores reports.

    A report that comes again overwrites itself, so it is stored once however often it is sent.
    """

    def __init__(
        self,
        store: StatisticsStore,
        latest: Latest,
        gateway: tuple[int, str],
        hello: Hello,
        now: datetime,
    ) -> None:
        self._store, self._latest = store, latest
        self._gateway, self._branch = gateway
        offset = now.timestamp() - hello.time
        self._offset = round(offset) if abs(offset) >= _CLOCK_S else 0
        """Seconds to add to the gateway's clock."""
        self._run, self._sequence = "", -1
        self._acknowledged = -1
        self._lost = self._refused = 0
        self._described = False
        self._layout: Layout | None = None
        """None where there is no room."""

    def describe(self, message: Series) -> None:
        """Take the names of the values of the reports that follow."""
        if message.run != self._run:
            self._run, self._sequence, self._acknowledged = message.run, -1, -1
            self._offset = self._steady_offset()
        self._described, self._lost = True, message.dropped
        try:
            self._layout = self._store.layout(self._branch, message.names)
        except OSError as error:  # no room on the disk: the gateway keeps its reports
            _log.error("statistics of %s cannot be stored: %s", self._branch, error)
            self._layout = None

    def _steady_offset(self) -> int:
        """Give the offset of this run's last connection, unless a clock was set since.

        Else a report that comes again on another connection could be stored a second later.
        """
        last = self._latest.get(self._gateway)
        if last and last.run == self._run and abs(last.offset - self._offset) <= _CLOCK_S:
            return last.offset
        return self._offset

    def take(self, frame: bytes) -> None:
        """Store a packed report.

        Raises:
            ValueError: it is none, or nobody has said what its values are.
        """
        if not self._described:
            raise ValueError("found a report before the names of its values")
        if self._layout is None:
            return
        report = unpack(frame, len(self._layout.names))
        if report.sequence <= self._sequence:
            raise ValueError(f"found report {report.sequence} after {self._sequence}")
        time = report.time + self._offset
        if not self._store.write(self._layout, time, report.values):
            self._refused += 1
        self._sequence = report.sequence
        lost = self._lost + self._refused
        found = Statistics(
            self._branch,
            self._run,
            self._offset,
            self._layout.names,
            time,
            report.sequence,
            report.values,
            lost,
        )
        self._latest.put(self._gateway, found)

    def pending(self) -> Acknowledge | None:
        """Give what may be acknowledged once all that was written until now is safe."""
        if self._sequence == self._acknowledged:
            return None
        return Acknowledge(run=self._run, sequence=self._sequence)

    def acknowledged(self, message: Acknowledge) -> None:
        """Note that an acknowledgement was sent."""
        if message.run == self._run:
            self._acknowledged = message.sequence
