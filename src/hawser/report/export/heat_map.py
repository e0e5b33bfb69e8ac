"""Medians of one metric over two axes of the variants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from hawser.report.export.content import Quantity
from hawser.report.export.style import COLUMN, PAGE, Scale, drawing, figure, literal, logarithmic
from hawser.report.model import Layout, Row
from hawser.report.words import number

_FEWEST = 2
"""Values that each axis needs."""
_MOST_PANELS = 8
_NARROW = 6
"""Columns that fit into a paper's column."""


def suits(layout: Layout) -> bool:
    """Whether the variants have two axes."""
    return bool(layout.axis and layout.group_axes)


def heat_map(
    quantity: Quantity, rows: Sequence[Row], layout: Layout, scale: Scale
) -> Figure | None:
    """Draw the medians: the last two axes across and down, a panel for the values of the others.

    Returns:
        None if an axis has fewer than two values, or there are too many panels.
    """
    *others, down = layout.group_axes
    across = layout.axis
    columns, lines = (list(dict.fromkeys(r.variant[a] for r in rows)) for a in (across, down))
    panels = list(dict.fromkeys(_panel(row, others) for row in rows))
    if min(len(columns), len(lines)) < _FEWEST or len(panels) > _MOST_PANELS:
        return None
    medians = [row.summary.median for row in rows]
    norm = (LogNorm if logarithmic(medians, scale) else Normalize)(min(medians), max(medians))
    with drawing():
        width = COLUMN if len(panels) == 1 and len(columns) <= _NARROW else PAGE
        made, axes = figure(len(panels), width, 0.5 + 0.3 * len(lines))
        for name, axis in zip(panels, axes, strict=True):
            grid = np.full((len(lines), len(columns)), math.nan)
            for row in rows:
                if _panel(row, others) == name:
                    at = lines.index(row.variant[down]), columns.index(row.variant[across])
                    grid[at] = row.summary.median
            image = _draw(axis, grid, norm)
            axis.set_title(literal(name))
            names = [literal(column) for column in columns]
            axis.set_xticks(range(len(columns)), names, rotation=30, ha="right")
            axis.set_yticks(range(len(lines)), [literal(line) for line in lines])
        made.supxlabel(literal(across), fontsize=8)
        made.supylabel(literal(down), fontsize=8)
        made.colorbar(image, ax=axes, label=literal(quantity.unit))
        return made


def _draw(axis: Axes, grid: NDArray[np.float64], norm: Normalize) -> AxesImage:
    """Draw one panel, each cell with its number."""
    image = axis.imshow(grid, aspect="auto", cmap="cividis", norm=norm)
    for (y, x), value in np.ndenumerate(grid):
        if math.isfinite(value):
            paint = "white" if norm(value) < 0.5 else "black"
            axis.text(x, y, number(value), ha="center", va="center", color=paint, fontsize=6)
    axis.spines[:].set_visible(False)
    return image


def _panel(row: Row, axes: Sequence[str]) -> str:
    return ", ".join(row.variant[axis] for axis in axes)
