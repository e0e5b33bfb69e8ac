"""Errors of intrusion detection."""

from __future__ import annotations

from pathlib import Path


class IdsError(Exception):
    """Input that cannot be used. The message is one sentence that names the place."""

    def __init__(self, place: Path | str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place


class Lacking(Exception):  # noqa: N818 (a state, not a mistake)
    """This machine lacks a program; the message says how to install it."""


class Unavailable(Exception):  # noqa: N818
    """Kafka does not answer, or a transaction was aborted; it can be tried again."""


class Fenced(Exception):  # noqa: N818
    """Another process has taken over."""
