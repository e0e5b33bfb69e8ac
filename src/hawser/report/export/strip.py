"""Every run as a dot, with the median and its interval: one metric of all variants."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hawser.report.export.content import Quantity
from hawser.report.export.style import (
    COLUMN,
    MARKERS,
    PAGE,
    Scale,
    axis_title,
    colour,
    drawing,
    figure,
    legend,
    literal,
    logarithmic,
)
from hawser.report.figures.colours import colours
from hawser.report.model import Layout, Row

_WIDTH = 0.8
"""Share of a group's width that its series take."""
_HEIGHT = 2.2
"""Inches."""
_WIDE = 8
"""Variants from which the figure is as wide as a page."""


def strip(quantity: Quantity, rows: Sequence[Row], layout: Layout, scale: Scale) -> Figure:
    """Draw one metric: groups along the page, a dot a run, the median as a larger marker.

    The bar is the 95 % interval of the median, or the range of the runs where there is none.
    """
    with drawing():
        made, (axes,) = figure(1, PAGE if len(rows) >= _WIDE else COLUMN, _HEIGHT)
        alone = len(layout.groups) == 1
        names = layout.series
        step = 1.0 if alone else _WIDTH / len(names)
        for row in rows:
            index = names.index(layout.name(row.variant))
            group = layout.groups.index(layout.group(row.variant))
            x = index if alone else group + (index - (len(names) - 1) / 2) * step
            _row(axes, row, index, x, step)
        ticks = names if alone else layout.groups
        axes.set_xticks(range(len(ticks)), [literal(tick) for tick in ticks])
        if sum(map(len, ticks)) > 12 * made.get_size_inches()[0]:
            axes.tick_params(axis="x", labelrotation=30)
        axes.set_ylabel(axis_title(quantity.title, _HEIGHT))
        axes.grid(axis="y", color=colours()["grid"])
        axes.set_axisbelow(True)
        if logarithmic([v for row in rows for v in row.values], scale):
            axes.set_yscale("log")
        elif min(v for row in rows for v in row.values) >= 0:
            axes.set_ylim(bottom=0, top=1.05 * axes.get_ylim()[1])
        if not alone:
            axes.set_xlabel(literal(" / ".join(layout.group_axes)))
            legend(made, names, [_key(index) for index in range(len(names))])
        return made


def _row(axes: Axes, row: Row, index: int, x: float, step: float) -> None:
    paint, found = colour(index), row.summary
    spread = min(0.08, 0.25 * step)
    n = len(row.values)
    places = [x + spread * (2 * at / (n - 1) - 1 if n > 1 else 0) for at in range(n)]
    axes.plot(places, row.values, ".", color=paint, alpha=0.6, markersize=5, markeredgewidth=0)
    low, high = found.minimum, found.maximum
    if found.interval is not None:
        low, high = found.interval.low, found.interval.high
    axes.plot([x, x], [low, high], "-", color=paint, linewidth=0.9)
    axes.plot(x, found.median, MARKERS[index % len(MARKERS)], color=paint, markersize=4)
    if row.reference is not None:
        axes.plot(x, row.reference.value, "D", color=colours()["ink"], fillstyle="none",
                  markersize=4, markeredgewidth=0.7)  # fmt: skip


def _key(index: int) -> Line2D:
    marker = MARKERS[index % len(MARKERS)]
    return Line2D([], [], color=colour(index), marker=marker, markersize=4, linewidth=0.9)
