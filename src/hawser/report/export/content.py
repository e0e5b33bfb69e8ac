"""What figures show, chosen from a report and the samples behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hawser.report.collect import PASSIVE, Collected, Key
from hawser.report.model import Layout, Report, Row
from hawser.report.words import term, way
from hawser.spec.workflow import Labels
from hawser.store import Bundle, files

Points = tuple[tuple[float, float], ...]
"""Seconds after the measurement began, and value, in order of time."""

_THROUGHPUTS = ("goodput", "received", "throughput", "conditional_throughput")
_DELAYS = ("rtt_p99", "rtt", "delay_p99", "delay")
_FEWEST_POINTS = 10
"""Values of a trial from which their distribution is worth a figure."""


@dataclass(frozen=True)
class Quantity:
    """A metric of a measurement, as in `collect.Key`."""

    measurement: str
    metric: str
    unit: str
    direction: str
    subject: str
    histogram: bool = False
    """Whether its points are values with their counts, not with times."""

    @property
    def title(self) -> str:
        """Name with the unit, for an axis."""
        return f"{term(self.metric).title}, {self.unit}"

    @property
    def name(self) -> str:
        """The title as it stands within a sentence."""
        return self.title[:1].lower() + self.title[1:]

    @property
    def where(self) -> str:
        """What it was measured of."""
        parts = (self.measurement, self.subject, way(self.direction))  # type: ignore[arg-type]
        return ", ".join(filter(None, parts))

    @property
    def slug(self) -> str:
        """Part of a file's name."""
        direction = self.direction if self.direction in ("forward", "reverse") else ""
        parts = (self.measurement, self.metric, self.subject, direction)
        return re.sub(r"[^a-z0-9]+", "-", "-".join(filter(None, parts)).lower()).strip("-")[:80]


@dataclass(frozen=True)
class Panel:
    """Everything of one group of variants: series -> rows of runs."""

    name: str
    series: dict[str, list[Points]]


@dataclass(frozen=True)
class Tradeoff:
    """Throughput and delay of one variant, paired by run."""

    variant: Labels
    runs: tuple[tuple[float, float], ...]
    """Throughput and delay of each run."""


def by_metric(report: Report) -> Iterator[tuple[Quantity, list[Row]]]:
    """Rows of each metric that varies, the headline's first; without counters."""
    groups: dict[Quantity, list[Row]] = {}
    for row in (*report.headline, *report.rows):
        if row.measurement != PASSIVE:
            rows = groups.setdefault(_of(row), [])
            if row not in rows:
                rows.append(row)
    for quantity, rows in groups.items():
        if len({value for row in rows for value in row.values}) > 1:
            yield quantity, rows


def _of(row: Row) -> Quantity:
    return Quantity(row.measurement, row.metric, row.unit, row.direction, row.subject)


def series(found: Sequence[Collected], layout: Layout) -> Iterator[tuple[Quantity, list[Panel]]]:
    """Time series of each quantity that has some, by group and series."""
    keys: dict[Key, None] = {}
    for one in found:
        keys |= dict.fromkeys(key for key in one.series if key[0] != PASSIVE)
    for key in keys:
        panels = {group: Panel(group, {}) for group in layout.groups}
        for one in found:
            runs = one.series.get(key, {})
            if runs and (group := layout.group(one.variant)) in panels:
                points = [tuple(sorted(run)) for _, run in sorted(runs.items())]
                panels[group].series.setdefault(layout.name(one.variant), []).extend(points)
        filled = [panel for panel in panels.values() if panel.series]
        if filled:
            yield Quantity(*key), filled


def delays(bundle: Bundle, layout: Layout) -> Iterator[tuple[Quantity, list[Panel]]]:
    """One-way delays of loads, from the histograms that `hawserd load` leaves in valid trials."""
    found: dict[str, dict[str, Panel]] = {}
    for trial in bundle.trials:
        files = sorted((trial.path / "raw").glob("*.load.json")) if trial.record.valid else ()
        for file in files:
            points = _histogram(file)
            group = layout.group(trial.record.variant)
            if points and group in layout.groups:
                panels = found.setdefault(file.name.removesuffix(".load.json"), {})
                panel = panels.setdefault(group, Panel(group, {}))
                panel.series.setdefault(layout.name(trial.record.variant), []).append(points)
    for name, panels in sorted(found.items()):
        ordered = [panels[group] for group in layout.groups if group in panels]
        yield Quantity(name, "delay", "ms", "forward", "", histogram=True), ordered


def _histogram(file: Path) -> Points:
    """Counts, and the middle of each bucket in ms; nothing where the file is not as expected."""
    try:
        streams = json.loads(files.read(file))["received"]["streams"]
        buckets = [bucket for stream in streams for bucket in stream["delay"]["buckets"]]
        return tuple((float(n), (low + high) / 2e6) for low, high, n in buckets if n > 0)
    except (ValueError, LookupError, TypeError):
        return ()


def distributed(quantity: Quantity, panels: Sequence[Panel]) -> bool:
    """Whether a distribution within runs says something: delays with enough values."""
    most = max(len(run) for panel in panels for runs in panel.series.values() for run in runs)
    return quantity.unit == "ms" and most >= _FEWEST_POINTS


def tradeoffs(report: Report) -> tuple[Quantity, Quantity, list[Tradeoff]] | None:
    """Throughput against delay, of the same trials; None if a run does not measure both."""
    quantities = dict(by_metric(report)) | {
        _of(row): [r for r in report.rows if _of(r) == _of(row)] for row in report.rows
    }
    throughput = _first(quantities, _THROUGHPUTS, ("Mbit/s",))
    delay = _first(quantities, _DELAYS, ("ms",))
    if throughput is None or delay is None:
        return None
    delays = {frozenset(row.variant.items()): row for row in quantities[delay]}
    found = []
    for row in quantities[throughput]:
        other = delays.get(frozenset(row.variant.items()))
        if other is not None:
            late = {run.trial: run.value for run in other.runs}
            pairs = [(run.value, late[run.trial]) for run in row.runs if run.trial in late]
            found.append(Tradeoff(row.variant, tuple(pairs)))
    found = [one for one in found if one.runs]
    return (throughput, delay, found) if found else None


def _first(
    quantities: dict[Quantity, list[Row]], metrics: Sequence[str], units: Sequence[str]
) -> Quantity | None:
    for metric in metrics:
        for quantity in quantities:
            if quantity.metric == metric and quantity.unit in units and not quantity.subject:
                return quantity
    return None
