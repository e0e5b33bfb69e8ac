"""Distribution of delays within runs, as empirical distribution functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hawser.report.export.content import Panel, Quantity
from hawser.report.export.style import (
    COLUMN,
    LINES,
    PAGE,
    Scale,
    colour,
    drawing,
    figure,
    legend,
    literal,
    logarithmic,
)
from hawser.report.figures.colours import colours


def ecdf(quantity: Quantity, panels: Sequence[Panel], names: Sequence[str], scale: Scale) -> Figure:
    """Draw the share of values at or below each value, all runs of a variant together.

    Args:
        quantity: what is drawn; of a histogram, points have counts instead of times.
        panels: one a group.
        names: of all series, in order.
        scale: of the axis of values.
    """
    with drawing():
        made, axes = figure(len(panels), COLUMN if len(panels) == 1 else PAGE, 1.9)
        values = [v for p in panels for runs in p.series.values() for run in runs for _, v in run]
        for panel, axis in zip(panels, axes, strict=True):
            for name, runs in panel.series.items():
                index = names.index(name)
                pooled = np.array([point for run in runs for point in run])
                weights = pooled[:, 0] if quantity.histogram else None
                line = axis.ecdf(pooled[:, 1], weights, color=colour(index))
                line.set_linestyle(LINES[index % len(LINES)])
            axis.grid(color=colours()["grid"])
            axis.set(title=literal(panel.name), ylim=(0, 1.02))
            if logarithmic(values, scale):
                axis.set_xscale("log")
        made.supxlabel(literal(quantity.title), fontsize=8)
        made.supylabel("Share of values", fontsize=8)
        shown = [name for name in names if any(name in panel.series for panel in panels)]
        legend(made, shown, [_key(names.index(name)) for name in shown])
        return made


def _key(index: int) -> Line2D:
    return Line2D([], [], color=colour(index), linestyle=LINES[index % len(LINES)])
