"""A scene as PNG, in the colours of the page's light theme."""

from __future__ import annotations

import io
import warnings

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Patch, PathPatch, Polygon
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke

from hawser.report.figures.colours import colours
from hawser.report.figures.scene import Box, Curve, Disc, Item, Line, Scene, Shape, Text
from hawser.report.words import clean

_INCH = 100
"""Scene pixels per inch."""
_DENSITY = 2
"""Image pixels per scene pixel."""
_DASH = {"": "solid", "dashed": (0, (6, 4)), "dotted": (0, (1.5, 3))}
_POINT = 72 / _INCH


def png(scene: Scene) -> bytes:
    """Draw a scene. The same scene gives the same bytes."""
    figure = Figure(figsize=(scene.width / _INCH, scene.height / _INCH), dpi=_DENSITY * _INCH)
    FigureCanvasAgg(figure)
    figure.patch.set_facecolor(colours()["surface"])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.axis("off")
    for order, item in enumerate(scene.items):
        _draw(axes, item, order)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _draw(axes: Axes, item: Item, order: int) -> None:
    match item:
        case Line():
            _line(axes, item, order)
        case Curve():
            codes = [Outline.MOVETO, *[Outline.CURVE4] * (len(item.points) - 1)]
            patch = PathPatch(Outline(item.points, codes), fill=False, zorder=order)
            patch.set(edgecolor=colours()[item.role], linewidth=item.width * _POINT)
            axes.add_patch(patch)
        case Shape():
            axes.add_patch(_filled(Polygon(item.points, zorder=order), item))
        case Disc():
            axes.add_patch(_filled(Circle((item.x, item.y), item.radius, zorder=order), item))
        case Box():
            _box(axes, item, order)
        case Text():
            _text(axes, item, order)


def _line(axes: Axes, item: Line, order: int) -> None:
    x, y = zip(*item.points, strict=True)
    axes.plot(
        x,
        y,
        color=colours()[item.role],
        alpha=item.opacity,
        linewidth=item.width * _POINT,
        linestyle=_DASH[item.dash],
        zorder=order,
    )


def _text(axes: Axes, item: Text, order: int) -> None:
    axes.text(
        item.x,
        item.y,
        clean(item.text),
        color=colours()[item.role],
        fontsize=item.size * _POINT,
        fontweight="bold" if item.bold else "normal",
        horizontalalignment={"start": "left", "middle": "center", "end": "right"}[item.anchor],
        verticalalignment="baseline",
        parse_math=False,
        zorder=order,
        path_effects=[withStroke(linewidth=3 * _POINT, foreground=colours()["surface"])],
    )


def _filled(patch: Patch, item: Shape | Disc) -> Patch:
    colour = colours()[item.role]
    if item.filled:
        patch.set(facecolor=colour, edgecolor="none", alpha=item.opacity)
    else:
        patch.set(facecolor=colours()["surface"], edgecolor=colour, linewidth=1.8 * _POINT)
    return patch


def _box(axes: Axes, item: Box, order: int) -> None:
    style = f"round,pad=0,rounding_size={item.radius}" if item.radius else "square,pad=0"
    axes.add_patch(
        FancyBboxPatch(
            (item.x, item.y),
            item.width,
            item.height,
            boxstyle=style,
            facecolor=colours()[item.role],
            edgecolor=colours()[item.outline] if item.outline else "none",
            alpha=item.opacity,
            zorder=order,
        )
    )
