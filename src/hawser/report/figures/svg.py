"""A scene as SVG. The style sheet of the page around it gives the roles their colours."""

from __future__ import annotations

from html import escape

from hawser.report.figures.scene import Box, Curve, Disc, Item, Line, Point, Scene, Shape, Text
from hawser.report.words import clean

_DASH = {"": "", "dashed": ' stroke-dasharray="6 4"', "dotted": ' stroke-dasharray="2 4"'}


_STRETCH = 1.3
"""Largest factor by which a drawing grows with the page. Beyond it, text looks like headings."""


def svg(scene: Scene, css: str = "") -> str:
    """Write a drawing.

    Args:
        scene: what to draw.
        css: classes of the `svg` element.
    """
    body = "\n".join(map(_item, scene.items))
    return (
        f'<svg class="{_attribute(css)}" viewBox="0 0 {_n(scene.width)} {_n(scene.height)}"'
        f' style="aspect-ratio:{_n(scene.width)}/{_n(scene.height)};'
        f'max-width:{_n(_STRETCH * scene.width)}px" role="img"'
        f' aria-label="{_attribute(f"{scene.title}. {scene.description}")}">\n'
        f"{body}\n</svg>"
    )


def _item(item: Item) -> str:
    match item:
        case Line():
            return (
                f'<path class="k-{item.role}" d="M{_points(item.points, "L")}"{_DASH[item.dash]}'
                f"{_stroke(item.width)}{_opacity(item.opacity)}/>"
            )
        case Curve():
            start, rest = item.points[:1], item.points[1:]
            d = f"M{_points(start, '')}C{_points(rest, ' ')}"
            look = f"{_stroke(item.width)}{_opacity(item.opacity)}"
            return _element("path", f'class="k-{item.role}" d="{d}"{look}', item.tip)
        case Shape():
            look = f'class="{_look(item.role, item.filled)}"{_opacity(item.opacity)}'
            return _element("polygon", f'points="{_points(item.points, " ")}" {look}', item.tip)
        case Disc():
            where = f'cx="{_n(item.x)}" cy="{_n(item.y)}" r="{_n(item.radius)}"'
            look = f'class="{_look(item.role, item.filled)}"{_opacity(item.opacity)}'
            return _element("circle", f"{where} {look}", item.tip)
        case Box():
            return _box(item)
        case Text():
            return _text(item)


def _box(item: Box) -> str:
    outline = f" k-{item.outline} boxed" if item.outline else ""
    return (
        f'<rect class="f-{item.role}{outline}" x="{_n(item.x)}" y="{_n(item.y)}"'
        f' width="{_n(item.width)}" height="{_n(item.height)}" rx="{_n(item.radius)}"'
        f"{_opacity(item.opacity)}/>"
    )


def _text(item: Text) -> str:
    anchor = "" if item.anchor == "start" else f' text-anchor="{item.anchor}"'
    bold = ' font-weight="650"' if item.bold else ""
    return (
        f'<text class="f-{item.role}" x="{_n(item.x)}" y="{_n(item.y)}"'
        f' font-size="{_n(item.size)}"{anchor}{bold}>{escape(clean(item.text))}</text>'
    )


def _element(name: str, attributes: str, tip: str) -> str:
    if not tip:
        return f"<{name} {attributes}/>"
    return f"<{name} {attributes}><title>{escape(clean(tip))}</title></{name}>"


def _look(role: str, filled: bool) -> str:
    return f"f-{role}" if filled else f"f-surface k-{role} ring"


def _points(points: tuple[Point, ...], between: str) -> str:
    return between.join(f"{_n(x)} {_n(y)}" for x, y in points)


def _stroke(width: float) -> str:
    return "" if width == 1 else f' stroke-width="{_n(width)}"'


def _opacity(opacity: float) -> str:
    return "" if opacity == 1 else f' opacity="{_n(opacity)}"'


def _attribute(text: str) -> str:
    return escape(clean(text, 2000), quote=True)


def _n(value: float) -> str:
    """Format a number with the precision that is visible in the drawing."""
    return (
        f"{value:.2f}".rstrip("0").rstrip(".") if value < 10 else f"{value:.1f}".removesuffix(".0")
    )
