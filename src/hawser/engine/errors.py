"""Errors of runs other than those of the lab and the store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class EngineError(Exception):
    """The run cannot continue. The message is one sentence with the reason."""


class InputError(EngineError):
    """The user's input is wrong (exit code 2)."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
        """Each with its place, what was found and what was expected."""


class BusyError(EngineError):
    """Another process measured on this machine for longer than it was waited for."""

    def __init__(self, text: str, resume: Path | None = None) -> None:
        super().__init__(text)
        self.resume = resume
        """The bundle of the run that waited."""


class Interrupted(BaseException):
    """The process was told to end (SIGINT, SIGTERM, SIGHUP).

    Not an `Exception`: nothing on the way may take it for a failed measurement.
    """

    def __init__(self, signal: int, resume: Path | None = None) -> None:
        super().__init__(f"signal {signal}")
        self.signal = signal
        self.resume = resume
        """The bundle of the run that was interrupted."""


class LackingError(EngineError):
    """This machine lacks something (exit code 3)."""

    def __init__(self, lacks: Sequence[str]) -> None:
        super().__init__("; ".join(lacks))
        self.lacks = tuple(lacks)
        """Each with what to do about it."""
