"""Throughput against delay as in Pantheon (Yan et al., USENIX ATC 2018): better is up and right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from hawser.report.export.content import Quantity, Tradeoff
from hawser.report.export.style import (
    COLUMN,
    MARKERS,
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
from hawser.report.model import Layout

_FEWEST = 3
"""Runs from which an ellipse is drawn."""


def tradeoff(
    throughput: Quantity,
    delay: Quantity,
    found: Sequence[Tradeoff],
    layout: Layout,
    scale: Scale,
) -> Figure:
    """Draw each run as a dot, each variant's medians as a marker, and the spread as an ellipse.

    The ellipse has one standard deviation of the runs along its axes. Delay grows to the left.
    """
    groups = [g for g in layout.groups if any(layout.group(t.variant) == g for t in found)]
    with drawing():
        made, axes = figure(len(groups), COLUMN if len(groups) == 1 else PAGE, 2.0)
        log = logarithmic([late for one in found for _, late in one.runs], scale)
        for group, axis in zip(groups, axes, strict=True):
            for one in found:
                if layout.group(one.variant) == group:
                    _variant(axis, one, layout.series.index(layout.name(one.variant)), log=log)
            axis.grid(color=colours()["grid"])
            axis.set_axisbelow(True)
            axis.set_title(literal(group))
        if log:
            axes[0].set_xscale("log")
        axes[0].set_ylim(bottom=0, top=1.05 * axes[0].get_ylim()[1])
        axes[0].invert_xaxis()  # shared by all
        made.supxlabel(f"{literal(delay.title)} (better to the right)", fontsize=8)
        made.supylabel(literal(throughput.title), fontsize=8)
        names = [n for n in layout.series if any(layout.name(t.variant) == n for t in found)]
        legend(made, names, [_key(layout.series.index(name)) for name in names])
        return made


def _variant(axes: Axes, one: Tradeoff, index: int, *, log: bool) -> None:
    rates, delays = (np.array(values) for values in zip(*one.runs, strict=True))
    paint = colour(index)
    axes.plot(delays, rates, ".", color=paint, alpha=0.6, markersize=4, markeredgewidth=0)
    if len(rates) >= _FEWEST and not log:
        axes.add_patch(_ellipse(delays, rates, paint))
    marker = MARKERS[index % len(MARKERS)]
    axes.plot(np.median(delays), np.median(rates), marker, color=paint, markersize=5)


def _ellipse(x: np.ndarray, y: np.ndarray, paint: str) -> Ellipse:
    """One standard deviation along the principal axes of the points."""
    sizes, ways = np.linalg.eigh(np.cov(x, y))
    width, height = 2 * np.sqrt(np.clip(sizes, 0, None))
    angle = float(np.degrees(np.arctan2(ways[1, 0], ways[0, 0])))
    centre = (float(x.mean()), float(y.mean()))
    return Ellipse(centre, width, height, angle=angle, facecolor=paint, edgecolor="none", alpha=0.2)


def _key(index: int) -> Line2D:
    marker = MARKERS[index % len(MARKERS)]
    return Line2D([], [], color=colour(index), marker=marker, markersize=5, linestyle="")
