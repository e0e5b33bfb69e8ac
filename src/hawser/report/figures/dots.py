"""The main chart: every run as a dot, median with interval, published value, bounds.

Variants stand side by side in groups (`columns`), or below each other (`bars`) if the page is
narrow or there is only one group. Each variant has three lanes: runs, median, published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hawser.report.figures.scale import Scale, scale
from hawser.report.figures.scene import (
    BOLD,
    Anchor,
    Box,
    Dash,
    Item,
    Key,
    Line,
    Point,
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
from hawser.report.words import interval, middle, number, term, way

_SLOT = 40
"""Height of a variant in bars, in pixels."""
_NARROWEST = 26
"""Smallest width of a variant in columns, in pixels."""
_HEAD = 26
"""Height of a group's name in bars, in pixels."""


@dataclass(frozen=True)
class Frame:
    """Coordinates of the plot: `across` runs along the variants, the scale along the values."""

    columns: bool
    scale: Scale
    start: float
    """Ends of the plot in the `across` direction, in pixels."""
    end: float

    def at(self, across: float, value: float) -> Point:
        """Point at which a value is drawn."""
        return self.pixel(across, self.scale(value))

    def pixel(self, across: float, along: float) -> Point:
        """Point at a pixel position along the value axis."""
        return (across, along) if self.columns else (along, across)


@dataclass(frozen=True)
class Slot:
    """Place of one variant."""

    row: Row
    name: str
    series: int
    centre: float
    size: float


def dots(rows: Sequence[Row], layout: Layout, width: float, *, columns: bool) -> Scene:
    """Draw one metric.

    Args:
        rows: one per variant, all of one metric.
        layout: how variants are laid out.
        width: width of the drawing in pixels.
        columns: put groups side by side if there is room; otherwise stack all variants.
    """
    title, where = heading(rows[0])
    columns = columns and len(layout.groups) > 1 and _roomy(rows, layout, width)
    head, top = legend(legend_keys(rows, layout if columns else None), 0, 46, width)
    draw = _columns if columns else _bars
    body, height = draw(rows, layout, width, top + 4)
    items = (
        Text(0, 16, fit(title, BOLD * 15, width), "ink", 15, bold=True),
        Text(0, 34, fit(where, 12.5, width), "muted", 12.5),
        *head,
        *body,
    )
    return Scene(width, height, f"{title}, {where}", describe(rows, layout), items)


def heading(row: Row) -> tuple[str, str]:
    """Title of a metric's axis, and where the metric was measured."""
    where = ", ".join(filter(None, (row.measurement, row.subject, way(row.direction))))
    return f"{term(row.metric).title}, {row.unit}", where


def describe(rows: Sequence[Row], layout: Layout) -> str:
    """The chart's numbers in words."""
    parts = []
    for row in rows:
        name = " ".join(filter(None, (layout.group(row.variant), layout.name(row.variant))))
        found = row.summary
        parts.append(
            f"{name}: median {middle(found)} ({interval(found.interval)}),"
            f" mean {number(found.mean)}, {found.n} runs"
        )
    return "; ".join(parts)


def _roomy(rows: Sequence[Row], layout: Layout, width: float) -> bool:
    return (width - 60) / (len(rows) + len(layout.groups)) >= _NARROWEST


def _columns(
    rows: Sequence[Row], layout: Layout, width: float, top: float
) -> tuple[list[Item], float]:
    """Groups side by side, values upwards."""
    bottom, height = top + 330, top + 330 + 44
    left = 46.0
    frame = Frame(True, scale(_extent(rows), bottom, top + 12), left, width)
    size = (width - left) / (len(rows) + len(layout.groups))
    items: list[Item] = _grid(frame)
    x = left
    for group in layout.groups:
        members = [row for row in rows if layout.group(row.variant) == group]
        span = size * (len(members) + 1)
        items.append(Text(x + span / 2, bottom + 20, fit(group, 13, span), "ink", 13, "middle"))
        for index, row in enumerate(members):
            centre = x + size * (index + 1)
            items += _slot(frame, _place(row, layout, centre, size))
        x += span
    axis = " / ".join(layout.group_axes)
    items.append(Text((left + width) / 2, bottom + 40, axis, "muted", 12, "middle"))
    return items, height


def _bars(
    rows: Sequence[Row], layout: Layout, width: float, top: float
) -> tuple[list[Item], float]:
    """Variants below each other, values to the right."""
    names = [layout.name(row.variant) for row in rows]
    left = min(max(text_width(name, 13) for name in names) + 30, 0.4 * width)
    many = len(layout.groups) > 1
    end = top + len(rows) * _SLOT + (len(layout.groups) * _HEAD if many else 0)
    frame = Frame(False, scale(_extent(rows), left, width - 44, 5), top, end)
    items: list[Item] = _grid(frame)
    y = top
    for group in layout.groups:
        if many:
            items.append(Text(0, y + 18, fit(group, 13, width), "ink", 13, bold=True))
            y += _HEAD
        for row in (row for row in rows if layout.group(row.variant) == group):
            slot = _place(row, layout, y + _SLOT / 2, _SLOT)
            items.append(series_marker(slot.series, 6, slot.centre - 1, 5))
            items.append(Text(18, slot.centre + 4, fit(slot.name, 13, left - 26), "ink", 13))
            items += _slot(frame, slot)
            y += _SLOT
    return items, end + 30


def _place(row: Row, layout: Layout, centre: float, size: float) -> Slot:
    name = layout.name(row.variant)
    series = layout.series.index(name) if name in layout.series else len(layout.series)
    return Slot(row, name, series, centre, size)


def _grid(frame: Frame) -> list[Item]:
    items: list[Item] = []
    anchor: Anchor = "end" if frame.columns else "middle"
    for pixel, label in frame.scale.ticks():
        zero = pixel == frame.scale(0)
        ends = (frame.pixel(frame.start, pixel), frame.pixel(frame.end, pixel))
        items.append(Line(ends, "axis" if zero else "grid"))
        x, y = (frame.start - 8, pixel + 4) if frame.columns else (pixel, frame.end + 18)
        items.append(Text(x, y, label, "muted", 12, anchor))
    return items


def _slot(frame: Frame, slot: Slot) -> list[Item]:
    """Everything drawn for one variant."""
    lane = min(10.0, slot.size / 4)
    return [
        *_bounds(frame, slot),
        _body(frame, slot),
        *_runs(frame, slot, lane),
        *_median(frame, slot),
        *_reference(frame, slot, lane),
        _value(frame, slot),
    ]


def _bounds(frame: Frame, slot: Slot) -> list[Item]:
    if slot.row.bounds is None:
        return []
    near, far = slot.centre - slot.size / 2, slot.centre + slot.size / 2
    levels: tuple[tuple[float, Dash], ...] = (
        (slot.row.bounds.together, "dashed"),
        (slot.row.bounds.single, "dotted"),
    )
    return [
        Line((frame.at(near, level), frame.at(far, level)), "bound", 1.5, dash)
        for level, dash in levels
    ]


def _body(frame: Frame, slot: Slot) -> Item:
    """A pale bar from zero to the median, because the eye compares lengths."""
    half = 0.36 * slot.size
    x1, y1 = frame.at(slot.centre - half, 0)
    x2, y2 = frame.at(slot.centre + half, slot.row.summary.median)
    corner, size = (min(x1, x2), min(y1, y2)), (abs(x2 - x1), abs(y2 - y1))
    return Box(*corner, *size, series_role(slot.series), opacity=0.16)


def _runs(frame: Frame, slot: Slot, lane: float) -> list[Item]:
    """Each run as a dot. Dots are staggered so that equal values do not hide each other."""
    across = slot.centre - lane if frame.columns else slot.centre + lane
    found: list[Item] = []
    for index, run in enumerate(slot.row.runs):
        x, y = frame.at(across + (index % 3 - 1) * lane / 4, run.value)
        tip = f"{slot.name}, run {run.repeat} (trial {run.trial}): {number(run.value)}"
        dot = marker("disc", x, y, 2.6, series_role(slot.series), tip=f"{tip} {slot.row.unit}")
        found.append(dot)
    return found


def _median(frame: Frame, slot: Slot) -> list[Item]:
    """The interval as an error bar, and the median as a line across it."""
    found, role, at = slot.row.summary, series_role(slot.series), slot.centre
    items: list[Item] = []
    if found.interval is not None:
        ends = found.interval.low, found.interval.high
        low, high = max(ends[0], frame.scale.low), min(ends[1], frame.scale.high)
        items.append(Line((frame.at(at, low), frame.at(at, high)), role, 2))
        items += (
            Line((frame.at(at - 4, end), frame.at(at + 4, end)), role, 2)
            for end in (low, high)
            if end in ends  # an end beyond the axis gets no cap
        )
    half = 0.36 * slot.size
    level = frame.at(at - half, found.median), frame.at(at + half, found.median)
    items.append(Line(level, role, 2.5))
    x, y = frame.at(at, found.median)
    sure = f", 95 % CI {interval(found.interval)}" if found.interval is not None else ""
    tip = f"{slot.name}: median {middle(found)} {slot.row.unit}{sure}"
    items.append(series_marker(slot.series, x, y, 4.2, tip))
    return items


def _reference(frame: Frame, slot: Slot, lane: float) -> list[Item]:
    reference = slot.row.reference
    if reference is None:
        return []
    across = slot.centre + lane if frame.columns else slot.centre - lane
    x, y = frame.at(across, reference.value)
    tip = f"published: {number(reference.value)} {slot.row.unit} ({reference.source})"
    return [marker("diamond", x, y, 4.2, "ink", filled=False, tip=tip)]


def _value(frame: Frame, slot: Slot) -> Item:
    """The median as a number, placed beyond the runs and clear of the published value."""
    row, label = slot.row, middle(slot.row.summary)
    edge = frame.scale(min(max(_reach(row)), frame.scale.high))
    published = frame.scale(row.reference.value) if row.reference is not None else float("inf")
    if frame.columns:
        top = published if edge - 27 < published < edge + 3 else edge
        return Text(slot.centre, top - 10, label, "ink", 12, "middle", bold=True)
    right = published if edge - 3 < published < edge + 45 else edge
    return Text(right + 10, slot.centre + 4, label, "ink", 12, bold=True)


def _reach(row: Row) -> list[float]:
    """Values that are drawn for a variant: its runs and the upper end of its interval."""
    return [*row.values, *((i.high,) if (i := row.summary.interval) is not None else ())]


def _extent(rows: Sequence[Row]) -> list[float]:
    """Values the axis must cover: everything drawn, with intervals up to 25 % beyond the rest."""
    solid = [
        *(value for row in rows for value in row.values),
        *(row.reference.value for row in rows if row.reference is not None),
        *(row.bounds.together for row in rows if row.bounds is not None),
    ]
    low, high = min(0.0, *solid), max(0.0, *solid)
    ends = [e for row in rows if (i := row.summary.interval) is not None for e in (i.low, i.high)]
    return [*solid, *(min(max(end, 1.25 * low), 1.25 * high) for end in ends)]


def _level(role: str) -> Item:
    return Line(((5, -3), (19, -3)), role, 2.5)


def legend_keys(rows: Sequence[Row], layout: Layout | None) -> list[Key]:
    """Legend of the marks. With a layout, it lists the series too."""
    keys = [
        Key(name, (series_marker(index, 12, 0, 5),))
        for index, name in enumerate(layout.series if layout is not None else ())
    ]
    whisker = (
        Line(((1, 0), (23, 0)), "muted", 2),
        Line(((1, -4), (1, 4)), "muted", 2),
        Line(((23, -4), (23, 4)), "muted", 2),
        marker("disc", 12, 0, 4, "muted"),
    )
    runs = tuple(marker("disc", x, 0, 2.6, "muted") for x in (4, 12, 20))
    keys += [
        Key("one run each", runs),
        Key("median", (Box(5, -3, 14, 9, "muted", opacity=0.3), _level("muted"))),
    ]
    if any(row.summary.interval for row in rows):
        keys.append(Key("its 95 % interval", whisker))
    if any(row.reference for row in rows):
        keys.append(Key("published", (marker("diamond", 12, 0, 4.5, "ink", filled=False),)))
    if any(row.bounds for row in rows):
        keys += [
            Key("all paths together", (Line(((0, 0), (24, 0)), "bound", 1.5, "dashed"),)),
            Key("best single path", (Line(((0, 0), (24, 0)), "bound", 1.5, "dotted"),)),
        ]
    return keys
