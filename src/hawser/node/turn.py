"""Turns: only one process at a time measures on this machine, be it a run, a bench or a test.

Two files are locked (flock(2), released by the kernel when the holder ends, even by a crash):

    .next       by whoever has the next turn, while it waits for the other
    .measuring  by whoever measures; it says who that is

A process that measures again and again asks for `.next` each time, and finds it taken if another
one waits. So turns alternate.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

PLACE: Final = Path("/run/hawser")
VARIABLE: Final = "HAWSER_TURN"
"""Environment variable: the process that has the turn, for those that it starts."""
LONGEST: Final = 3600.0
"""Seconds that others are waited for, where nothing else is said."""

_POLL_SECONDS = 0.2
_LONGEST_NAME = 200
_UNKNOWN = "another measurement"


class TurnError(Exception):
    """Another process measured for longer than it was waited for; the text says which."""


class Turns:
    """The turns of one process."""

    def __init__(
        self,
        what: str,
        *,
        longest: float = LONGEST,
        place: Path = PLACE,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to take turns.

        Args:
            what: said to others who wait, such as `run quickstart-20260101T120000-1a2b`.
            longest: seconds that others are waited for.
            place: folder of the locks, which only this user may write.
            sleep: lets time pass; may raise to end the wait.
            clock: monotonic seconds.
        """
        self._what = what
        self._longest = longest
        self._place = place
        self._sleep = sleep
        self._clock = clock

    @contextlib.contextmanager
    def take(self, say: Callable[[str], None] = lambda _: None) -> Iterator[float]:
        """Wait for the turn, and hold it; gives the seconds waited.

        Args:
            say: told whom is waited for, once for each.

        Raises:
            TurnError: the others did not end in time.
            OSError: the locks cannot be made.
        """
        if inherited():
            yield 0.0
            return
        began = self._clock()
        with contextlib.ExitStack() as stack:
            with contextlib.ExitStack() as waiting:
                self._lock(waiting, ".next", began, say)
                measuring = self._lock(stack, ".measuring", began, say)
            _write(measuring, self._what)
            stack.callback(os.truncate, measuring, 0)
            stack.enter_context(_environment(VARIABLE, str(os.getpid())))
            yield self._clock() - began

    def _lock(
        self,
        stack: contextlib.ExitStack,
        name: str,
        began: float,
        say: Callable[[str], None],
    ) -> int:
        self._place.mkdir(mode=0o755, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._place / name, flags, 0o600)
        stack.callback(os.close, descriptor)
        said = None
        while not _locked(descriptor):
            holder, waited = measuring(self._place), self._clock() - began
            if waited >= self._longest:
                raise TurnError(
                    f"{holder or _UNKNOWN} still measures on this machine after a wait of "
                    f"{self._longest:.0f} s"
                )
            if holder and holder != said:
                say(f"waiting for {holder}")
                said = holder
            self._sleep(_POLL_SECONDS)
        return descriptor


def inherited() -> bool:
    """Whether another process has the turn and has started this one."""
    return os.environ.get(VARIABLE, "") not in ("", str(os.getpid()))


def measuring(place: Path = PLACE) -> str:
    """Say who measures now; empty if nobody does, or has not said so yet."""
    try:
        found = json.loads((place / ".measuring").read_text())
        what, pid = str(found["what"])[:_LONGEST_NAME], int(found["pid"])
        return f"{what} (process {pid}, since {found['since']} UTC)"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(descriptor: int, what: str) -> None:
    since = datetime.now(UTC).strftime("%H:%M:%S")
    text = json.dumps({"what": what, "pid": os.getpid(), "since": since})
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
