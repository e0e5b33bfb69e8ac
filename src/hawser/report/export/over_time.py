"""Time series of runs: goodput, round-trip times, windows and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hawser.report.export.content import Panel, Points, Quantity
from hawser.report.export.style import (
    COLUMN,
    LINES,
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
from hawser.report.figures.facets import median_of

_HEIGHT = 1.9
"""Inches of a row of panels."""
_MOST_THIN = 12
"""Runs of a variant drawn singly; more would blur into one."""

Events = Mapping[str, Sequence[tuple[float, str]]]
"""Group -> events during its runs."""


def over_time(
    quantity: Quantity,
    panels: Sequence[Panel],
    names: Sequence[str],
    events: Events,
    scale: Scale,
) -> Figure:
    """Draw runs as thin lines and their median as a thick one.

    Args:
        quantity: what is drawn.
        panels: one a group.
        names: of all series, in order.
        events: of each group, as dotted lines.
        scale: of the axis of values.
    """
    with drawing():
        made, axes = figure(len(panels), COLUMN if len(panels) == 1 else PAGE, _HEIGHT)
        values = [v for p in panels for runs in p.series.values() for run in runs for _, v in run]
        log = logarithmic(values, scale)
        for panel, axis in zip(panels, axes, strict=True):
            for second, _ in events.get(panel.name, ()):
                axis.axvline(second, color=colours()["bound"], linestyle=":", linewidth=0.8)
            for name, runs in panel.series.items():
                index = names.index(name)
                for run in runs[:_MOST_THIN]:
                    axis.plot(*_columns(run), color=colour(index), alpha=0.25, linewidth=0.4)
                line = axis.plot(*_columns(median_of(runs)), color=colour(index), linewidth=1.2)
                line[0].set_linestyle(LINES[index % len(LINES)])
            axis.grid(color=colours()["grid"])
            axis.set_title(literal(panel.name))
        if log:
            axes[0].set_yscale("log")
        elif min(values) >= 0:
            axes[0].set_ylim(bottom=0)
        made.supxlabel("Seconds since the measurement began", fontsize=8)
        made.supylabel(axis_title(quantity.title, _HEIGHT), fontsize=8)
        shown = [name for name in names if any(name in panel.series for panel in panels)]
        legend(made, shown, [_key(names.index(name)) for name in shown])
        return made


def _columns(points: Points) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(points, dtype=float).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _key(index: int) -> Line2D:
    return Line2D([], [], color=colour(index), linestyle=LINES[index % len(LINES)])
