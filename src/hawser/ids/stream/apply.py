"""The sidecar of a sensor that takes verdicts to it which others made of records of all sensors.

The sensor judges each by its own limits and its list of allowed sources. A verdict is dealt with
when the sensor has answered, or when it is too old to matter. The place behind the last one is kept
once a second: after a crash some come again, of which the sensor has the blocks already.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from hawser.control.client import ControlError, DaemonClient, RefusedError
from hawser.ids.errors import Unavailable
from hawser.ids.stream.reader import Message, Place, Reader
from hawser.ids.stream.verdict import Verdict, parse
from hawser.store import files

_POLL_S: Final = 0.5
_KEEP_S: Final = 1.0
_RETRY_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_SECOND_US: Final = 1_000_000
_REASONS: Final = 20
"""Different reasons that are counted each by itself."""
_OTHER: Final = "other reasons"
_SHOWN: Final = 1000
"""One of so many messages that are no verdicts is logged: anybody may write them."""

_log = logging.getLogger(__name__)


@dataclass
class Counters:
    """What became of verdicts since the start."""

    blocked: int = 0
    """The sensor has made a block of them."""
    known: int = 0
    """It had one already, or renewed it."""
    refused: dict[str, int] = field(default_factory=dict)
    """It did not take them, by its reason: the source is allowed, there are too many, and so on."""
    others: int = 0
    """About flows that another sensor saw."""
    over: int = 0
    """About flows that had ended."""
    expired: int = 0
    """Too old to matter, also because the sensor was away for so long."""
    malformed: int = 0
    """Messages that are no verdicts."""
    failures: int = 0
    """Times that Kafka or the sensor did not answer."""
    is_connected: bool = False
    """To Kafka."""


@dataclass
class Applier:
    """Takes verdicts of a topic to one sensor until told to stop."""

    reader: Reader
    sensor: str
    client: DaemonClient
    file: Path
    """Where the place in the topic is kept."""
    lifetime_s: float
    """Age from which on a verdict does not matter any more, seconds."""
    status: Path | None = None
    """File for the counters, JSON, once a second."""
    clock_us: Callable[[], int] = lambda: time.time_ns() // 1000
    counters: Counters = field(default_factory=Counters)
    _place: Place = field(default_factory=Place, init=False)
    _kept: float = field(default=0.0, init=False)

    def run(self, stop: threading.Event) -> None:
        """Take verdicts until `stop` is set.

        Raises:
            IdsError: the file is not one of a place.
            OSError: it cannot be written.
        """
        failures = 0
        while not stop.is_set():
            try:
                self._read(stop)
            except Unavailable as error:
                failures = 1 if self.counters.is_connected else failures + 1
                self.counters.is_connected = False
                self._failed(stop, failures, f"Kafka: {error}")
        self.reader.end()
        self._report()

    def _read(self, stop: threading.Event) -> None:
        self._place = self.reader.begin(Place.read(self.file), self._oldest_us())
        self.counters.is_connected = True
        try:
            while not stop.is_set():
                if time.monotonic() - self._kept >= _KEEP_S:
                    self._keep()
                message = self.reader.next(_POLL_S)
                if message is not None and self._deal_with(message, stop):
                    offsets = {**self._place.offsets, message.partition: message.offset + 1}
                    self._place = replace(self._place, offsets=offsets)
        finally:
            self._keep()

    def _deal_with(self, message: Message, stop: threading.Event) -> bool:
        """Say whether it is dealt with; it is not if told to stop before."""
        try:
            verdict = parse(message.value)
        except ValueError as error:
            self.counters.malformed += 1
            if self.counters.malformed % _SHOWN == 1:
                _log.warning("verdict %s/%s: %s", message.partition, message.offset, error)
            return True
        if verdict.sensor not in (None, self.sensor):
            self.counters.others += 1
        elif verdict.is_over:
            self.counters.over += 1
        else:
            return self._tell(verdict, stop)
        return True

    def _tell(self, verdict: Verdict, stop: threading.Event) -> bool:
        failures = 0
        while verdict.last_us >= self._oldest_us():
            try:
                block = self.client.verdict(verdict.order)
            except RefusedError as error:
                self._refused(verdict, error.reason)
                return True
            except ControlError as error:
                failures += 1
                self._failed(stop, failures, str(error))
                if stop.is_set():
                    return False
            else:
                self.counters.known += block is None
                self.counters.blocked += block is not None
                return True
        self.counters.expired += 1
        return True

    def _refused(self, verdict: Verdict, reason: str) -> None:
        refused = self.counters.refused
        if reason not in refused and len(refused) >= _REASONS:
            reason = _OTHER
        if reason not in refused:
            _log.warning("verdict %s is refused, as others may be: %s", verdict.id, reason)
        refused[reason] = refused.get(reason, 0) + 1

    def _oldest_us(self) -> int:
        return self.clock_us() - int(self.lifetime_s * _SECOND_US)

    def _failed(self, stop: threading.Event, failures: int, why: str) -> None:
        """Wait before the next attempt: longer each time, and not when all others try too."""
        self.counters.failures += 1
        if failures == 1:
            _log.warning("%s; tried again until it answers", why)
        self._report()
        longest = _RETRY_S[min(failures, len(_RETRY_S)) - 1]
        stop.wait(longest * random.uniform(0.5, 1))  # noqa: S311 (no secret)

    def _keep(self) -> None:
        self._kept = time.monotonic()
        self._place.write(self.file)
        self._report()

    def _report(self) -> None:
        if self.status is not None:
            files.write(self.status, json.dumps(asdict(self.counters), indent=1).encode())
