"""A probe measures one thing on a lab and says it in samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hawser.driver.base import Lab
from hawser.store.sample import Sample


class ProbeError(Exception):
    """The measurement did not come about; the trial is void and says why."""


@dataclass(frozen=True)
class Context:
    """What a probe gets besides its own description."""

    lab: Lab
    measurement: str
    """Name of the measurement in the workflow."""
    raw: Path
    """Folder of this trial for the tools' own output, kept as it came."""
    started: Callable[[], None]
    """To be called when traffic starts: events are timed from here."""
    disrupted: bool = False
    """Whether the workflow's events take something down meanwhile: silence is then a result."""


class Probe(Protocol):
    """One kind of measurement."""

    def measure(self, context: Context) -> list[Sample]:
        """Measure once.

        Raises:
            ProbeError: the tool failed, or its result cannot be trusted.
        """

    def seconds(self) -> float:
        """How long it will take, for progress and plan."""

    def tools(self) -> tuple[str, ...]:
        """Programs it needs on the nodes."""
