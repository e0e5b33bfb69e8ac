"""Interruption of a run, once and at a safe time.

It comes from signals of the process or from another thread.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Protocol

from hawser.engine.errors import Interrupted

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals(Protocol):
    """A source of interruption."""

    def handled(self) -> AbstractContextManager[None]:
        """Raise `Interrupted` in this block only."""

    def shielded(self) -> AbstractContextManager[None]:
        """Delay an interruption to the end of this block, to remove labs and complete files."""

    def check(self) -> None:
        """Raise `Interrupted` if there was an interruption. Called between the steps of a run."""

    def sleep(self, seconds: float) -> None:
        """Wait, or end at an interruption."""


class _Told:
    """Whether there was an interruption, and whether it may take effect now."""

    def __init__(self) -> None:
        self._shields = 0
        self._number: int | None = None

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Delay an interruption to the end of this block; see `Signals.shielded`."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        self.check()

    def check(self) -> None:
        """Raise `Interrupted` if there was an interruption and no block delays it."""
        if self._number is not None and not self._shields:
            raise Interrupted(self._number)


class ProcessSignals(_Told):
    """The signals that end a process. For its main thread: Python interrupts no other one."""

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Raise `Interrupted` in this block when a signal comes, at any moment."""
        previous = {number: signal.signal(number, self._handle) for number in _ENDING}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def sleep(self, seconds: float) -> None:
        """Let time pass; a signal ends it."""
        time.sleep(seconds)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._number = number
        self.check()


class StopRequest(_Told):
    """A request by another thread. The run ends at its next step, after the current measurement."""

    def __init__(self) -> None:
        super().__init__()
        self._event = threading.Event()

    def stop(self) -> None:
        """Interrupt the run. From any thread; idempotent."""
        self._number = signal.SIGTERM
        self._event.set()

    def handled(self) -> AbstractContextManager[None]:
        """Nothing to set up: a run asks whether it was told (`check`)."""
        return nullcontext()

    def sleep(self, seconds: float) -> None:
        """Let time pass; a request ends it."""
        self._event.wait(seconds)
        self.check()
