"""A drawing as a list of simple shapes that have roles instead of colours.

Lengths are in pixels and y grows downwards. A role names the purpose of a shape (`ink`, `grid`,
`s0` for the first series ...). The back end maps each role to a colour that suits the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Dash = Literal["", "dashed", "dotted"]
Point = tuple[float, float]

SERIES = 8
"""Number of distinct colours and shapes for series; further series reuse them in order."""


@dataclass(frozen=True)
class Line:
    """A polyline."""

    points: tuple[Point, ...]
    role: str
    width: float = 1
    dash: Dash = ""
    opacity: float = 1


@dataclass(frozen=True)
class Curve:
    """Cubic Bezier curves joined end to end: the start, then three points per curve."""

    points: tuple[Point, ...]
    role: str
    width: float = 1
    opacity: float = 1
    tip: str = ""


@dataclass(frozen=True)
class Shape:
    """A polygon, filled or outlined."""

    points: tuple[Point, ...]
    role: str
    filled: bool = True
    opacity: float = 1
    tip: str = ""


@dataclass(frozen=True)
class Disc:
    """A circle."""

    x: float
    y: float
    radius: float
    role: str
    filled: bool = True
    opacity: float = 1
    tip: str = ""


@dataclass(frozen=True)
class Box:
    """A rectangle with rounded corners."""

    x: float
    y: float
    width: float
    height: float
    role: str
    outline: str = ""
    """Role of the border; empty for no border."""
    radius: float = 0
    opacity: float = 1


@dataclass(frozen=True)
class Text:
    """One line of text on its baseline."""

    x: float
    y: float
    text: str
    role: str = "ink"
    size: float = 13
    anchor: Anchor = "start"
    bold: bool = False


Item = Line | Curve | Shape | Disc | Box | Text


@dataclass(frozen=True)
class Scene:
    """A whole drawing."""

    width: float
    height: float
    title: str
    """Title that a screen reader announces first."""
    description: str
    """Text alternative for readers who cannot see the drawing."""
    items: tuple[Item, ...]


_UNIT: dict[str, tuple[Point, ...]] = {
    "square": ((-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)),
    "triangle": ((0, -1.15), (1.05, 0.75), (-1.05, 0.75)),
    "diamond": ((0, -1.25), (1.1, 0), (0, 1.25), (-1.1, 0)),
    "down": ((0, 1.15), (1.05, -0.75), (-1.05, -0.75)),
    "plus": (
        (-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4),
        (0.4, 1.1), (-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4),
    ),
    "wide": ((-1.3, -0.6), (1.3, -0.6), (1.3, 0.6), (-1.3, 0.6)),
    "tall": ((-0.6, -1.3), (0.6, -1.3), (0.6, 1.3), (-0.6, 1.3)),
}  # fmt: skip
_SHAPES = ("disc", *_UNIT)


def series_role(index: int) -> str:
    """Role of a series."""
    return f"s{index % SERIES}"


def series_marker(index: int, x: float, y: float, size: float, tip: str = "") -> Item:
    """Marker of a series. The shape differs as well as the colour, for colour-blind readers."""
    return marker(_SHAPES[index % SERIES], x, y, size, series_role(index), tip=tip)


def marker(
    name: str, x: float, y: float, size: float, role: str, *, filled: bool = True, tip: str = ""
) -> Item:
    """A small shape around a point."""
    if name == "disc":
        return Disc(x, y, size, role, filled=filled, tip=tip)
    points = tuple((x + size * dx, y + size * dy) for dx, dy in _UNIT[name])
    return Shape(points, role, filled=filled, tip=tip)


def text_width(text: str, size: float) -> float:
    """Estimated width of a text in a common sans-serif font, in pixels."""
    narrow = sum(character in "iljtf.,:;|!' " for character in text)
    wide = sum(character in "mwMW@%" for character in text)
    return size * (0.57 * len(text) - 0.25 * narrow + 0.28 * wide)


BOLD = 1.18
"""Width of bold text relative to regular text."""


def fit(text: str, size: float, width: float) -> str:
    """Shorten the text if it is wider than `width`."""
    text = text[:400]
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


@dataclass(frozen=True)
class Key:
    """An entry of a legend."""

    label: str
    sample: tuple[Item, ...]
    """Sample of the marks, drawn in a box of 24 x 12 pixels centred on (12, 0)."""


def legend(keys: Iterable[Key], left: float, top: float, width: float) -> tuple[list[Item], float]:
    """Lay a legend out in lines.

    Returns:
        The legend's items, and the y coordinate just below it.
    """
    items: list[Item] = []
    x, y = left, top + 8
    for key in keys:
        label = fit(key.label, 12, width - 34)
        needed = 30 + text_width(label, 12) + 18
        if x > left and x + needed - 18 > left + width:
            x, y = left, y + 20
        items += (shifted(item, x, y) for item in key.sample)
        items.append(Text(x + 30, y + 4, label, "muted", 12))
        x += needed
    return items, y + 16


def shifted(item: Item, dx: float, dy: float) -> Item:
    """A copy of the item, moved by (dx, dy)."""
    match item:
        case Line():
            return Line(_moved(item.points, dx, dy), item.role, item.width, item.dash, item.opacity)
        case Curve():
            return Curve(_moved(item.points, dx, dy), item.role, item.width, item.opacity, item.tip)
        case Shape():
            moved = _moved(item.points, dx, dy)
            return Shape(moved, item.role, item.filled, item.opacity, item.tip)
        case Disc():
            x, y = item.x + dx, item.y + dy
            return Disc(x, y, item.radius, item.role, item.filled, item.opacity, item.tip)
        case Box():
            x, y, size = item.x + dx, item.y + dy, (item.width, item.height)
            return Box(x, y, *size, item.role, item.outline, item.radius, item.opacity)
        case Text():
            x, y = item.x + dx, item.y + dy
            return Text(x, y, item.text, item.role, item.size, item.anchor, item.bold)


def _moved(points: tuple[Point, ...], dx: float, dy: float) -> tuple[Point, ...]:
    return tuple((x + dx, y + dy) for x, y in points)


def texts(scene: Scene) -> Iterator[str]:
    """All text in a drawing."""
    return (item.text for item in scene.items if isinstance(item, Text))
