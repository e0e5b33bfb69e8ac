"""The main result as one picture: title, finding and chart."""

from __future__ import annotations

import textwrap

from hawser.report.figures.dots import dots
from hawser.report.figures.raster import png
from hawser.report.figures.scene import Item, Scene, Text, shifted
from hawser.report.model import Report

_WIDTH = 1040.0
_MARGIN = 40.0


def poster(report: Report) -> bytes:
    """Draw the picture, as PNG."""
    title, *lines = (
        *textwrap.wrap(report.manifest.title, 70)[:1],
        *textwrap.wrap(" ".join(report.finding), 120),
    )
    items: list[Item] = [Text(_MARGIN, 56, title, "ink", 24, bold=True)]
    y = 88.0
    for line in lines:
        items.append(Text(_MARGIN, y, line, "muted", 14.5))
        y += 22
    if report.headline:
        chart = dots(report.headline, report.layout, _WIDTH, columns=True)
        items += (shifted(item, _MARGIN, y + 14) for item in chart.items)
        y += chart.height + 14
    about = f"Hawser run {report.manifest.run}" + ("" if report.valid else ", not valid")
    items.append(Text(_MARGIN, y + 22, about, "muted", 12))
    scene = Scene(_WIDTH + 2 * _MARGIN, y + 44, title, " ".join(report.finding), tuple(items))
    return png(scene)
