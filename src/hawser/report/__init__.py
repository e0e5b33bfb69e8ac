"""Reports: a run read, judged, and shown as a page, a table, data or a picture.

`build` and `render` make the report of a run, `compare` and `render_comparison` set runs side by
side. `renderable` and `renderable_comparison` are for a terminal.
"""

from hawser.report.build import build
from hawser.report.compare import FORMS, Comparison, Form, compare
from hawser.report.comparison import render_comparison, renderable_comparison
from hawser.report.data import document
from hawser.report.model import Report
from hawser.report.render import FORMATS, Format, render
from hawser.report.text import renderable

__all__ = [
    "FORMATS",
    "FORMS",
    "Comparison",
    "Form",
    "Format",
    "Report",
    "build",
    "compare",
    "document",
    "render",
    "render_comparison",
    "renderable",
    "renderable_comparison",
]
