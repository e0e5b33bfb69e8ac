"""Errors of intrusion detection."""

from __future__ import annotations

from pathlib import Path


class IdsError(Exception):
    """Input that cannot be used. The message is one sentence that names the place."""

    def __init__(self, place: Path | str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
