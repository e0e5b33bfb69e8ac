"""The small table after a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import synthetic
from hawser.cli import output
from hawser.cli.summary import summary
from hawser.report.build import build
from hawser.store import Bundle


def shown(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    output.show(summary(build(Bundle.open(path))))
    return capsys.readouterr().out


def test_a_line_a_variant_with_the_headline_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(synthetic.write(tmp_path, synthetic.quickstart()), capsys)
    assert re.search(r"variant +n +goodput Mbit/s +.*rtt ms", text)
    assert re.search(r"ipomp +5 +3\d\.\d \(3\d\.\d.3\d\.\d\)", text)
    assert "assertion holds: median goodput of ipomp: at least 16 Mbit/s" in text
    assert "rtt_min" not in text
    assert "daemon:" not in text


def test_published_figures_stand_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(synthetic.write(tmp_path, synthetic.table1()), capsys)
    assert re.search(r"10:10:10:10 / tcp-ipomp +5 +3\d\.\d .*published 36\.5", text)


def test_what_is_wrong_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = synthetic.write(tmp_path, synthetic.quickstart(), scale=0.1, void={3: "gw1 died"})
    text = shown(path, capsys)
    assert re.search(r"void: trial 3 \(.*\): gw1 died", text)
    assert re.search(
        r"assertion failed: median goodput of ipomp: at least 16 Mbit/s; found 3\.\d+ \(ipomp\)",
        text,
    )
