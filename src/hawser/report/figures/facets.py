"""Small charts side by side, one per group, all with the same axes."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hawser.report.figures.scale import Scale, scale
from hawser.report.figures.scene import (
    BOLD,
    Anchor,
    Item,
    Key,
    Line,
    Point,
    Scene,
    Text,
    fit,
    legend,
    series_role,
    text_width,
)
from hawser.report.model import Layout, Row, TimeSeries
from hawser.report.words import term

_HEIGHT = 190
_LEFT = 40
_GAP = 26
_MOST_THIN = 12
"""Most thin lines drawn per variant; more would blur into one."""
_MOST_POINTS = 200
"""Most points in the line of one distribution."""


@dataclass(frozen=True)
class Panel:
    """One small chart, given by the two axes of its plot area."""

    x: Scale
    y: Scale

    def at(self, x: float, y: float) -> Point:
        """Point at which a pair of values is drawn."""
        return self.x(x), self.y(y)


Draw = Callable[[Panel, str, list[TimeSeries]], list[Item]]
"""Draws the time series of a group's runs into its panel."""

Events = Mapping[str, Sequence[tuple[float, str]]]
"""Group -> events during its runs, each a time in seconds and a name."""


def over_time(
    series: Sequence[TimeSeries], about: Row, layout: Layout, width: float, events: Events
) -> Scene:
    """Draw values over time: each run as a thin line, the median of the runs as a thick one."""
    values = [value for one in series for _, value in one.points]
    seconds = [second for one in series for second, _ in one.points]
    title = f"{term(about.metric).title} over time, {about.unit}"
    words = "Seconds since the measurement began; thin lines are runs, thick ones their median"

    def draw(panel: Panel, group: str, inside: list[TimeSeries]) -> list[Item]:
        marks = _events(panel, events.get(group, ()))
        return [
            *marks,
            *(i for one in _by_series(layout, inside) for i in _runs_over_time(panel, *one)),
        ]

    return _facets(series, layout, width, (title, words, "s"), (seconds, values), draw)


def distribution(series: Sequence[TimeSeries], about: Row, layout: Layout, width: float) -> Scene:
    """Draw the share of all intervals of all runs at or below each value (ECDF)."""
    values = [value for one in series for _, value in one.points]
    title = f"{term(about.metric).title} of all intervals, {about.unit}"
    words = "Share of all intervals at or below a value"

    def draw(panel: Panel, _group: str, inside: list[TimeSeries]) -> list[Item]:
        return [_ecdf(panel, *one) for one in _by_series(layout, inside)]

    return _facets(series, layout, width, (title, words, ""), (values, [1.0]), draw)


def _facets(
    series: Sequence[TimeSeries],
    layout: Layout,
    width: float,
    words: tuple[str, str, str],
    extent: tuple[list[float], list[float]],
    draw: Draw,
) -> Scene:
    """Lay out one panel per group. `words`: title, description, and unit of the x axis."""
    title, description, unit = words
    keys = [
        Key(name, (Line(((0, 0), (24, 0)), series_role(index), 2.5),))
        for index, name in enumerate(layout.series)
    ]
    head, top = legend(keys, 0, 34, width)
    columns = min(len(layout.groups), 4 if width > 700 else 1)
    size = (width - _GAP * (columns - 1)) / columns
    name = 20 if len(layout.groups) > 1 else 0
    pitch = _HEIGHT + name + 34
    items: list[Item] = [Text(0, 16, fit(title, BOLD * 15, width), "ink", 15, bold=True), *head]
    for index, group in enumerate(layout.groups):
        left, row = index % columns * (size + _GAP), index // columns
        upper = top + row * pitch
        panel = Panel(
            scale(extent[0], left + _LEFT, left + size - 4, 5),
            scale(extent[1], upper + name + _HEIGHT, upper + name + 6, 5),
        )
        items.append(Text(left + _LEFT, upper + 14, fit(group, 13, size - _LEFT), "ink", 13))
        items += _axes(panel, unit)
        items += draw(panel, group, [one for one in series if layout.group(one.variant) == group])
    rows = -(-len(layout.groups) // columns)
    return Scene(width, top + rows * pitch - 8, title, description, tuple(items))


def _axes(panel: Panel, unit: str) -> list[Item]:
    x, y = panel.x, panel.y
    items: list[Item] = []
    for pixel, label in y.ticks():
        items.append(Line(((x.start, pixel), (x.end, pixel)), "grid"))
        items.append(Text(x.start - 7, pixel + 4, label, "muted", 11.5, "end"))
    ticks = x.ticks()
    items += (Text(at, y.start + 17, label, "muted", 11.5, "middle") for at, label in ticks[:-1])
    last = f"{ticks[-1][1]} {unit}".rstrip()
    items.append(Text(x.end, y.start + 17, last, "muted", 11.5, "end"))
    items.append(Line(((x.start, y.start), (x.end, y.start)), "axis"))
    return items


def _by_series(layout: Layout, inside: list[TimeSeries]) -> list[tuple[int, list[TimeSeries]]]:
    """The time series by series. The first series comes last, so that it is drawn on top."""
    names = [(index, name) for index, name in enumerate(layout.series)]
    return [
        (index, found)
        for index, name in reversed(names)
        if (found := [one for one in inside if layout.name(one.variant) == name])
    ]


def _runs_over_time(panel: Panel, index: int, runs: list[TimeSeries]) -> list[Item]:
    role = series_role(index)
    thin: list[Item] = [
        Line(tuple(panel.at(*point) for point in run.points), role, 1, opacity=0.35)
        for run in runs[:_MOST_THIN]
        if len(run.points) > 1
    ]
    middle = median_series(runs)
    thick = Line(tuple(panel.at(*point) for point in middle), role, 2.5)
    return [*thin, thick] if len(middle) > 1 else thin


def _events(panel: Panel, events: Sequence[tuple[float, str]]) -> list[Item]:
    items: list[Item] = []
    for index, (second, name) in enumerate(e for e in events if e[0] <= panel.x.high):
        x, y = panel.at(second, panel.y.high)
        items.append(Line(((x, y), (x, panel.y.start)), "bound", 1.2, "dotted"))
        left = x + text_width(name, 10.5) < panel.x.end
        anchor: Anchor = "start" if left else "end"
        items.append(Text(x + (4 if left else -4), y + 9 + 12 * index, name, "bound", 10.5, anchor))
    return items


def median_series(runs: Sequence[TimeSeries]) -> tuple[Point, ...]:
    """Median over the runs at each time."""
    return median_of([run.points for run in runs])


def median_of(runs: Sequence[Sequence[Point]]) -> tuple[Point, ...]:
    """Median over series at each time; times are rounded to the interval length."""
    gaps = [b - a for run in runs for (a, _), (b, _) in itertools.pairwise(run)]
    step = statistics.median(gaps) if gaps else 1.0
    if step <= 0:
        return ()
    bins: dict[int, list[float]] = {}
    for run in runs:
        for second, value in run:
            bins.setdefault(round(second / step), []).append(value)
    return tuple((at * step, statistics.median(values)) for at, values in sorted(bins.items()))


def _ecdf(panel: Panel, index: int, runs: list[TimeSeries]) -> Item:
    """The empirical distribution function as a staircase."""
    values = sorted(value for run in runs for _, value in run.points)
    n = len(values)
    stride = max(1, n // _MOST_POINTS)
    points: list[Point] = [panel.at(values[0], 0)]
    for i in sorted({*range(0, n, stride), n - 1}):
        points.append((panel.x(values[i]), points[-1][1]))
        points.append(panel.at(values[i], (i + 1) / n))
    return Line(tuple(points), series_role(index), 2.2)
