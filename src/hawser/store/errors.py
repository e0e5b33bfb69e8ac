"""Errors of stored results."""

from __future__ import annotations

from pathlib import Path


class StoreError(Exception):
    """Stored results cannot be used. The message is one sentence that names the place."""


class BundleError(StoreError):
    """A folder is not a run bundle, or part of it is damaged or in use."""

    def __init__(self, place: Path, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place


class QueryError(StoreError):
    """An SQL statement could not be answered."""
