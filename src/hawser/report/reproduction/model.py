"""What a page about reproductions says, independent of its form."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hawser.spec.data.publications import Publication
from hawser.spec.published import PublishedItem
from hawser.spec.workflow import Labels, Workflow
from hawser.stats import Summary

Verdict = Literal["holds", "fails", "agrees", "disagrees", "not run"]
"""Of a claim: decided by a test, or only estimated from too few trials."""


@dataclass(frozen=True)
class Source:
    """A workflow file."""

    file: str
    workflow: Workflow


@dataclass(frozen=True)
class Run:
    """Where a value is from."""

    run: str
    started: datetime
    command: tuple[str, ...]
    machine: str
    notes: tuple[str, ...]
    """What people remarked about it."""
    problems: tuple[str, ...]
    """Why its results are not valid."""
    void: int
    """Trials left out of all statistics."""
    changed: bool
    """Whether it ran other settings than the workflow file has now."""

    @property
    def rank(self) -> tuple[bool, bool, datetime]:
        """The greater one is preferred: valid, then with the settings of the file, then newer."""
        return not self.problems, not self.changed, self.started


@dataclass(frozen=True)
class Outcome:
    """What a run gave as a whole."""

    workflow: str
    measured: int
    """Variants that were run, of those that the file has."""
    planned: int
    true: int
    """Conditions of the workflow that hold, or agree as far as few trials say."""
    checks: int
    """All that could be judged."""
    run: Run


@dataclass(frozen=True)
class Value:
    """One metric of one variant, published or measured or both."""

    variant: Labels
    measurement: str
    metric: str
    unit: str
    direction: str
    subject: str
    published: float | None
    source: str
    summary: Summary | None
    run: Run | None

    @property
    def ratio(self) -> float | None:
        """Ours to the published value."""
        if self.summary is None or self.summary.open or not self.published:
            return None
        return self.summary.median / self.published


@dataclass(frozen=True)
class Claim:
    """A sentence of a publication, and in how many variants it was found true."""

    text: str
    verdict: Verdict
    true: int
    """Checks that hold, or agree as far as few trials say."""
    checks: int


@dataclass(frozen=True)
class Entry:
    """One workflow's counterpart of a table or figure."""

    item: PublishedItem
    source: Source
    values: tuple[Value, ...]
    claims: tuple[Claim, ...]
    measured: int
    """Variants that were run."""
    planned: int
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Exhibit:
    """A table, figure or section with results."""

    key: str
    """Key of the publication."""
    name: str
    about: str
    entries: tuple[Entry, ...]
    """Empty if no workflow reproduces it."""
    without: str = ""
    """Why none does."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs that it has values from, newest first."""
        found = {run.run: run for entry in self.entries for run in entry.runs}
        return tuple(sorted(found.values(), key=lambda run: run.started, reverse=True))


@dataclass(frozen=True)
class Chapter:
    """A publication."""

    key: str
    publication: Publication
    exhibits: tuple[Exhibit, ...]
