"""Reports: a run read, judged, and shown as a page, a table, data or a picture."""

from hawser.report.build import build
from hawser.report.model import Report

__all__ = ["Report", "build"]
