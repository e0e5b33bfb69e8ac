"""The sidecar of a sensor: its records go to Kafka as they are written.

The sensor never waits for it. While Kafka does not answer, records wait in the log, whose size is
bounded: what the sensor removes before it was sent is counted as lost by the gap in its numbers.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from hawser.ids.errors import Unavailable
from hawser.ids.stream import log
from hawser.ids.stream.kafka import Sender
from hawser.ids.stream.progress import Progress, news
from hawser.store import files

_IDLE_S: Final = 0.1
"""Between looks at a log without news: adds half of it to the time to a verdict."""
_RETRY_S: Final = (0.5, 1.0, 2.0, 5.0)
_REPORT_S: Final = 1.0

_log = logging.getLogger(__name__)


@dataclass
class Counters:
    """What was done since the start."""

    records: int = 0
    """Records that Kafka has."""
    transactions: int = 0
    failures: int = 0
    """Times that Kafka did not answer or a transaction was aborted."""
    stalled_s: float = 0.0
    """Time in which Kafka took nothing, seconds."""
    waiting_bytes: int = 0
    """Of the log, not sent yet."""
    lost: int = 0
    """Records that were removed from the log before they were sent, or never got there."""
    copies: int = 0
    malformed: int = 0
    is_connected: bool = False


@dataclass
class Shipper:
    """Sends a log's records until told to stop."""

    folder: Path
    sender: Sender
    status: Path | None = None
    """File for the counters, JSON, once a second."""
    counters: Counters = field(default_factory=Counters)
    _sent: Progress = field(default_factory=Progress, init=False)
    _alive: float = field(default=0.0, init=False)
    """When Kafka last took what there was."""

    def run(self, stop: threading.Event) -> None:
        """Send until `stop` is set.

        Raises:
            IdsError: the log cannot be read.
            Fenced: another process sends this sensor's records.
        """
        failures, self._alive = 0, time.monotonic()
        while not stop.is_set():
            try:
                progress = self.sender.begin()
                self._count_stall()
                self.counters.is_connected, failures = True, 0
                self._ship(progress, stop)
            except Unavailable as error:
                self._count_stall()
                self.counters.is_connected = False
                self.counters.failures += 1
                _log.warning("Kafka: %s", error)
                self._report()
                stop.wait(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1
        self._report()

    def _count_stall(self) -> None:
        now = time.monotonic()
        self.counters.stalled_s += now - self._alive
        self._alive = now

    def _ship(self, progress: Progress, stop: threading.Event) -> None:
        reported = 0.0
        while not stop.is_set():
            chunk = log.read(self.folder, progress.position)
            if chunk.position != progress.position:
                progress = self._send(progress, chunk)
            self._sent, self._alive = progress, time.monotonic()
            if time.monotonic() - reported >= _REPORT_S:
                reported = time.monotonic()
                self._report()
            if not chunk.lines:
                stop.wait(_IDLE_S)

    def _send(self, progress: Progress, chunk: log.Chunk) -> Progress:
        found = news(progress, chunk.lines, chunk.position, self.sender.sensor)
        if chunk.lines:
            self.sender.send(found.records, found.progress)
            self.counters.transactions += 1
        self.counters.records += len(found.records)
        self.counters.lost += found.lost
        self.counters.copies += found.copies
        self.counters.malformed += found.malformed
        return found.progress

    def _report(self) -> None:
        self.counters.waiting_bytes = log.behind(self.folder, self._sent.position)
        if self.status is not None:
            files.write(self.status, json.dumps(asdict(self.counters), indent=1).encode())
