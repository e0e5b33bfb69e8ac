"""Result file of a bench: target/bench/NAME.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict

from harness.machine import Machine
from harness.samples import Samples

if TYPE_CHECKING:
    from harness.bench import Bench


class Row(BaseModel):
    """One metric of one peer. If it could not be measured, `n` is 0 and there are no values."""

    model_config = ConfigDict(frozen=True)

    name: str
    metric: str
    unit: str
    median: float | None
    min: float | None
    max: float | None
    n: int
    values: dict[int, float]
    """By round, from 0."""

    @classmethod
    def of(cls, name: str, metric: str, unit: str, values: Mapping[int, float]) -> Self:
        """Summarise the values of a metric, by round."""
        found = values.values()
        return cls(
            name=name,
            metric=metric,
            unit=unit,
            median=median(found) if found else None,
            min=min(found, default=None),
            max=max(found, default=None),
            n=len(found),
            values=dict(sorted(values.items())),
        )


class Check(BaseModel):
    """A condition that must hold. It fails if it has no value because a sample is missing."""

    model_config = ConfigDict(frozen=True)

    name: str
    value: float | None
    limit: float
    ok: bool


class Figure(BaseModel):
    """An absolute figure: reported, but not judged, because it depends on the machine."""

    model_config = ConfigDict(frozen=True)

    name: str
    value: float | None
    aim: float
    """What the machines that we develop on should reach."""


class Result(BaseModel):
    """Everything that a run of a bench found."""

    model_config = ConfigDict(frozen=True)

    bench: str
    machine: Machine
    rows: list[Row]
    checks: list[Check]
    figures: list[Figure] = []

    def write(self, file: Path) -> None:
        """Write the result as JSON, atomically."""
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(self.model_dump_json(indent=1) + "\n")
        partial.replace(file)


def at_least(name: str, value: float | None, limit: float) -> Check:
    """Check that `value` reaches `limit`."""
    return Check(name=name, value=value, limit=limit, ok=value is not None and value >= limit)


def at_most(name: str, value: float | None, limit: float) -> Check:
    """Check that `value` does not exceed `limit`."""
    return Check(name=name, value=value, limit=limit, ok=value is not None and value <= limit)


def rows(bench: Bench, samples: Samples) -> list[Row]:
    """One row for every metric of every peer.

    A metric that does not apply to a peer gets no row. A peer that could not be measured at all is
    still listed, with a row without values for each metric.
    """
    found = []
    for peer in bench.peers:
        mine = [
            Row.of(peer.name, metric.name, metric.unit, samples.of(peer.name, metric.name))
            for metric in bench.metrics
        ]
        measured = [row for row in mine if row.n]
        found += measured or mine
    return found
