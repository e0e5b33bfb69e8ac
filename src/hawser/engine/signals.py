"""Being told to end: once, at a moment when it does no harm."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hawser.engine.errors import Interrupted

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Turns the signals that end a process into `Interrupted`, except where shielded."""

    def __init__(self) -> None:
        self._shields = 0
        self._pending: int | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Raise `Interrupted` in this block when a signal comes. Main thread only."""
        previous = {number: signal.signal(number, self._handle) for number in _ENDING}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let this block end before a signal takes effect: labs are removed, files completed."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._pending is not None and not self._shields:
            raise Interrupted(self._pending)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._pending = number
        if not self._shields:
            raise Interrupted(number)
