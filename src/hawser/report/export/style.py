"""Looks of exported figures: sizes of a paper's columns, colours of the page, scales of axes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hawser.report.figures.colours import colours
from hawser.report.words import clean

Scale = Literal["auto", "linear", "log"]
"""Of axes of values. `auto`: logarithmic if positive values span more than two decades."""

COLUMN, PAGE = 3.5, 7.16
"""Widths of a column and of a page of a two-column paper, inches (IEEE, ACM)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "p", "X")
"""Shape differs as well as colour, for colour-blind readers and grey printers."""
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), "-")

_DECADES = 2.0
_SETTINGS: dict[Any, Any] = {
    "font.family": "serif",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType: Type 3 fonts are refused by many publishers
    "svg.fonttype": "none",
    "svg.hashsalt": "hawser",
    "pgf.rcfonts": False,
    "pgf.preamble": r"\usepackage[T1]{fontenc}\usepackage{lmodern}\usepackage{textcomp}",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Settings of all figures, in this block only."""
    with mpl.rc_context(_SETTINGS):
        yield


def figure(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of panels side by side, up to four in a row, that share their axes.

    Args:
        panels: number of panels.
        width: of the figure, inches.
        height: of a row of panels, inches.
    """
    columns = min(panels, 4 if width > COLUMN else 2)
    rows = -(-panels // columns)
    made = Figure(figsize=(width, rows * height + 0.3), layout="constrained")
    FigureCanvasAgg(made)
    grid = made.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    axes = [axis for row in grid for axis in row]
    for spare in axes[panels:]:
        spare.remove()
    return made, axes[:panels]


def colour(index: int) -> str:
    """Colour of a series."""
    return colours()[f"s{index % len(MARKERS)}"]


def logarithmic(values: Iterable[float], scale: Scale) -> bool:
    """Whether an axis of these values is logarithmic; zero and negative values have no place."""
    finite = [value for value in values if math.isfinite(value)]
    if scale == "linear" or not finite or min(finite) <= 0:
        return False
    return scale == "log" or math.log10(max(finite) / min(finite)) > _DECADES


def literal(text: str) -> str:
    """Text from a file, as it may stand in a figure: a dollar sign begins no formula."""
    return clean(text, 60).replace("$", r"\$")


def axis_title(text: str, height: float) -> str:
    """Title of an axis in lines that fit the height of its panel, inches."""
    return "\n".join(textwrap.wrap(literal(text), max(10, int(16 * height))))


def legend(made: Figure, names: Sequence[str], handles: Sequence[Line2D]) -> None:
    """The series, above the panels; none if there is only one."""
    if len(names) > 1:
        width, widest = made.get_size_inches()[0], max(map(len, names))
        columns = max(1, min(len(names), int(width / (0.055 * widest + 0.4))))
        made.legend(handles, [literal(n) for n in names], loc="outside upper center", ncols=columns)
