"""The results shown after a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hawser.cli import output
from hawser.cli.failure import FAILED

if TYPE_CHECKING:
    from hawser.store import Bundle

REPORT = "report.html"


def results(bundle: Bundle, *, as_json: bool) -> int:
    """Write the report into the bundle, show the results, and give the exit code."""
    from hawser.cli.summary import summary
    from hawser.report.build import build
    from hawser.report.data import document
    from hawser.report.render import render

    report = build(bundle)
    page = bundle.path / REPORT
    page.write_bytes(render(report, "html"))
    if as_json:
        output.document(document(report))
    else:
        output.show(summary(report))
        sys.stdout.flush()
        output.say(f"Report: {page}")
    return 0 if report.valid and report.passed else FAILED
