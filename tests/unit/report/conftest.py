"""Runs to report on. Their numbers are invented."""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic
from hawser.report.build import build
from hawser.report.model import Report
from hawser.store import Bundle, Sample

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></svg><iframe src=//example.org>",
    "a|b`c`\n# heading\n[link](javascript:alert(1))",
    "\x1b[31mred\x1b]0;title\x07 \u202eevil\u2066 \x00",
    "[bold red]markup[/] {{ 7 * 7 }} ${x} $x^2$",
    "z" * 5000,
)


@pytest.fixture(scope="session")
def quickstart_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    void = {3: "iperf3: connection reset"}
    return synthetic.write(folder, synthetic.quickstart(6), void=void)


@pytest.fixture(scope="session")
def quickstart(quickstart_path: Path) -> Report:
    return build(Bundle.open(quickstart_path))


@pytest.fixture(scope="session")
def table1(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return build(Bundle.open(synthetic.write(tmp_path_factory.mktemp("runs"), synthetic.table1())))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Names that attack each form, and numbers at the ends of what a float holds."""
    extra = [
        Sample(measurement=text, metric=text, unit=text, subject=text, value=value)
        for text, value in zip(
            HOSTILE, (1e100, -1e100, 5e-324, 0.0, -1.5, 1e-9, 12345678.9), strict=True
        )
    ]
    extra += [
        Sample(measurement="passive", metric="drop_<b>", unit="p", subject=text, value=3.0)
        for text in HOSTILE
    ]
    workflow = synthetic.quickstart(3).model_copy(
        update={"title": HOSTILE[0], "description": HOSTILE[1], "source": HOSTILE[4]}
    )
    folder = tmp_path_factory.mktemp("runs")
    path = synthetic.write(folder, workflow, void={2: HOSTILE[4], 4: HOSTILE[3]}, extra=extra)
    return build(Bundle.open(path))
