"""What is shown after a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawser.cli import output
from hawser.cli.failure import FAILED

if TYPE_CHECKING:
    from hawser.store import Bundle


def results(bundle: Bundle, *, as_json: bool) -> int:
    """Write the report into the bundle, show the results, and give the exit code."""
    from hawser.report.build import build

    report = build(bundle)
    for row in report.rows:
        print(row.variant, row.measurement, row.metric, row.summary.median, row.unit)
    return 0 if report.valid and report.passed else FAILED
