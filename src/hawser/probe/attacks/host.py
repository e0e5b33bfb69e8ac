"""A host is either attacking or benign: what its packets are is never in doubt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_POLL_SECONDS: Final = 0.2


class Stopped(Exception):  # noqa: N818 (no error: the block is over)
    """All traffic is to end."""


class Host:
    """Keeps attacks and benign sessions of one host apart, however late its threads run."""

    def __init__(self, stop: threading.Event) -> None:
        """Begin with neither; `stop` ends all waiting."""
        self._stop = stop
        self._condition = threading.Condition()
        self._sessions = 0
        self._attacks = False

    @contextmanager
    def benign(self) -> Iterator[None]:
        """Have a benign session while the block runs; waits for the end of an attack.

        Raises:
            Stopped: all is over.
        """
        with self._condition:
            self._until(lambda: not self._attacks)
            self._sessions += 1
        try:
            yield
        finally:
            with self._condition:
                self._sessions -= 1
                self._condition.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Attack while the block runs; no session begins any more, and running ones end first.

        Raises:
            Stopped: all is over.
        """
        with self._condition:
            self._until(lambda: not self._attacks)
            self._attacks = True
        try:
            with self._condition:
                self._until(lambda: not self._sessions)
            yield
        finally:
            with self._condition:
                self._attacks = False
                self._condition.notify_all()

    def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._stop.is_set():
                raise Stopped
            self._condition.wait(_POLL_SECONDS)
        if self._stop.is_set():
            raise Stopped
