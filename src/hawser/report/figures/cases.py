"""Line chart for many cases: the cases run along the page, with one line per series.

The axis with the most values runs along the page. The axes before it become panels, the axes
after it become series. Each point is the median of a variant's runs. Its error bar is the
confidence interval, or the range of the runs if there is no interval. A hollow diamond is the
published value.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hawser.report.figures.dots import heading
from hawser.report.figures.scale import Scale, scale
from hawser.report.figures.scene import (
    BOLD,
    Item,
    Key,
    Line,
    Scene,
    Text,
    fit,
    legend,
    marker,
    series_marker,
    series_role,
    text_width,
)
from hawser.report.model import Layout, Row
from hawser.report.words import interval, middle, number

MANY = 12
"""With more groups than this, the chart that shows every run would not fit on a page."""

_HEIGHT = 210
_LEFT = 40
_NAME = 24
_FOOT = 46
_LABEL = 11.5


@dataclass(frozen=True)
class Axes:
    """Role of each axis of the variants: panel, position along the page, or series."""

    panels: tuple[str, ...]
    along: str
    series: tuple[str, ...]

    def panel(self, row: Row) -> str:
        """Title of the panel that a row belongs to."""
        return ", ".join(self._value(axis, row) for axis in self.panels)

    def name(self, row: Row) -> str:
        """Name of the series that a row belongs to."""
        return ", ".join(self._value(axis, row) for axis in self.series)

    def _value(self, axis: str, row: Row) -> str:
        """Name a value. A bare number also gets the name of its axis."""
        value = row.variant.get(axis, "")
        return f"{value} {axis}" if value.isdecimal() else value


def suits(layout: Layout) -> bool:
    """Tell whether there are enough groups for this chart."""
    return len(layout.groups) > MANY


def axes(rows: Sequence[Row], layout: Layout) -> Axes:
    """Assign a role to each axis. The last axis never runs along the page."""
    names = (*layout.group_axes, layout.axis)
    counts = [len({row.variant.get(axis) for row in rows}) for axis in layout.group_axes]
    at = counts.index(max(counts))
    return Axes(panels=names[:at], along=names[at], series=names[at + 1 :])


def cases(rows: Sequence[Row], layout: Layout, width: float) -> Scene:
    """Draw one metric.

    Args:
        rows: one per variant, all of one metric.
        layout: how variants are laid out; `suits` must hold for it.
        width: width of the drawing in pixels.
    """
    title, where = heading(rows[0])
    use = axes(rows, layout)
    names = list(dict.fromkeys(use.name(row) for row in rows))
    head, y = legend(_keys(rows, names), 0, 46, width)
    items: list[Item] = [
        Text(0, 16, fit(title, BOLD * 15, width), "ink", 15, bold=True),
        Text(0, 34, fit(where, 12.5, width), "muted", 12.5),
        *head,
    ]
    for panel in dict.fromkeys(use.panel(row) for row in rows):
        inside = [row for row in rows if use.panel(row) == panel]
        items += _panel(panel, inside, use, names, (width, y, scale(_extent(rows), 0, 1)))
        y += _NAME + _HEIGHT + _FOOT
    return Scene(width, y, f"{title}, {where}", _described(rows, use), tuple(items))


def _panel(
    name: str,
    rows: Sequence[Row],
    use: Axes,
    names: Sequence[str],
    place: tuple[float, float, Scale],
) -> list[Item]:
    """Draw one panel. `place` is the drawing's width, the panel's top, and all values to show."""
    width, top, extent = place
    bottom, right = top + _NAME + _HEIGHT, width - 6
    value = Scale(extent.low, extent.high, bottom, top + _NAME, extent.step)
    along = list(dict.fromkeys(row.variant.get(use.along, "") for row in rows))
    pitch = (right - _LEFT) / len(along)
    items: list[Item] = [Text(_LEFT, top + 14, fit(name, 13, right - _LEFT), "ink", 13, bold=True)]
    items += _grid(value, right)
    items += _labels(along, use.along, pitch, bottom)
    step = min(5.0, pitch / (len(names) + 1))
    for index, series in reversed(list(enumerate(names))):
        shift = _LEFT + pitch / 2 + (index - (len(names) - 1) / 2) * step
        mine = {r.variant.get(use.along, ""): r for r in rows if use.name(r) == series}
        points = [(shift + pitch * at, mine[case]) for at, case in enumerate(along) if case in mine]
        items += _line(index, points, value)
    return items


def _grid(value: Scale, right: float) -> list[Item]:
    items: list[Item] = []
    for pixel, text in value.ticks():
        items.append(Line(((_LEFT, pixel), (right, pixel)), "grid"))
        items.append(Text(_LEFT - 7, pixel + 4, text, "muted", _LABEL, "end"))
    items.append(Line(((_LEFT, value(0)), (right, value(0))), "axis"))
    return items


def _labels(along: Sequence[str], axis: str, pitch: float, bottom: float) -> list[Item]:
    """Names of the cases without their common prefix; some are skipped if space is short."""
    common = _common(along) if len(along) > 1 else 0
    short = [name[common:] or name for name in along]
    widest = max(text_width(name, _LABEL) for name in short) + 6
    every = max(1, -int(-widest // pitch))
    items: list[Item] = [
        Text(_LEFT + pitch * (at + 0.5), bottom + 17, name, "muted", _LABEL, "middle")
        for at, name in enumerate(short)
        if at % every == 0
    ]
    items.append(Text(_LEFT + pitch * len(along) / 2, bottom + 34, axis, "muted", 12, "middle"))
    return items


def _common(names: Sequence[str]) -> int:
    """Length of the common prefix of all names. It never ends inside a number."""
    alike = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    return len("".join(column[0] for column in alike).rstrip("0123456789."))


def _line(index: int, points: Sequence[tuple[float, Row]], value: Scale) -> list[Item]:
    role = series_role(index)
    items: list[Item] = []
    if len(points) > 1:
        medians = tuple((x, value(row.summary.median)) for x, row in points)
        items.append(Line(medians, role, 1.6, opacity=0.6))
    for x, row in points:
        items += _error_bar(x, row, value, role)
        if row.reference is not None:
            y = value(row.reference.value)
            items.append(marker("diamond", x, y, 4.5, "ink", filled=False, tip=_published(row)))
        y = value(row.summary.median)
        items.append(
            series_marker(
                index, x, y, 3.4, tip=f"{', '.join(row.variant.values())}: {_numbers(row)}"
            )
        )
    return items


def _error_bar(x: float, row: Row, value: Scale, role: str) -> list[Item]:
    found = row.summary
    ends = found.minimum, found.maximum
    if found.interval is not None:
        ends = found.interval.low, found.interval.high
    low, high = (value(min(max(v, value.low), value.high)) for v in ends)
    return [
        Line(((x, low), (x, high)), role, 1.3),
        *(Line(((x - 2.5, end), (x + 2.5, end)), role, 1.3) for end in (low, high)),
    ]


def _keys(rows: Sequence[Row], names: Sequence[str]) -> list[Key]:
    keys = [
        Key(
            name,
            (Line(((0, 0), (24, 0)), series_role(index), 1.6), series_marker(index, 12, 0, 4)),
        )
        for index, name in enumerate(names)
    ]
    bar = (Line(((12, -6), (12, 6)), "muted", 1.3), *_caps())
    sure = any(row.summary.interval for row in rows)
    keys.append(Key("median, 95 % interval" if sure else "median, range", bar))
    if any(row.reference for row in rows):
        keys.append(Key("published", (marker("diamond", 12, 0, 4.5, "ink", filled=False),)))
    return keys


def _caps() -> tuple[Item, ...]:
    return tuple(Line(((9, y), (15, y)), "muted", 1.3) for y in (-6, 6))


def _extent(rows: Sequence[Row]) -> list[float]:
    """Values the axis must cover: all runs, published values, and intervals up to 25 % beyond."""
    solid = [value for row in rows for value in row.values]
    solid += [row.reference.value for row in rows if row.reference is not None]
    low, high = min(0.0, *solid), max(0.0, *solid)
    ends = [e for row in rows if (i := row.summary.interval) is not None for e in (i.low, i.high)]
    return [*solid, *(min(max(end, 1.25 * low), 1.25 * high) for end in ends)]


def _described(rows: Sequence[Row], use: Axes) -> str:
    parts = []
    for row in rows:
        case = row.variant.get(use.along, "")
        where = ", ".join(filter(None, (use.panel(row), case, use.name(row))))
        parts.append(f"{where}: {_numbers(row)}")
    return "; ".join(parts)


def _numbers(row: Row) -> str:
    found = row.summary
    return f"median {middle(found)} ({interval(found.interval)}) {row.unit}, {found.n} runs"


def _published(row: Row) -> str:
    return f"published: {number(row.reference.value)} {row.unit}" if row.reference else ""
