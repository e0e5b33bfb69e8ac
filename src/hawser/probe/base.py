"""A probe measures one thing in a lab and gives samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hawser.driver.base import Lab
from hawser.store.sample import Sample


class ProbeError(Exception):
    """The measurement failed; the trial is void for this reason."""


@dataclass(frozen=True)
class Context:
    """The context of a measurement."""

    lab: Lab
    measurement: str
    """Name of the measurement in the workflow."""
    raw: Path
    """Folder of this trial for the unchanged output of tools."""
    started: Callable[[], None]
    """Must be called when traffic starts, from which events are timed."""
    disrupted: bool = False
    """Whether events take something down during the measurement; no answer is then a result."""


class Probe(Protocol):
    """One kind of measurement."""

    def measure(self, context: Context) -> list[Sample]:
        """Measure once.

        Raises:
            ProbeError: the tool failed, or its result cannot be trusted.
        """

    def seconds(self) -> float:
        """Expected duration, for progress and plan."""

    def tools(self) -> tuple[str, ...]:
        """Programs it needs on the nodes."""
