"""The small table after a run."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

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


@pytest.mark.parametrize("width", [24, 40, 80, 400])
def test_a_table_too_wide_is_continued_below(width: int) -> None:
    names = [f"metric_{number} Mbit/s " for number in range(12)]
    rows = [("4 / spark", *(f"{number}.5 (1.25 to 50.75)" for number in range(12)))]
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(output.WideTable(("variant", *names), rows))
    text = captured.get()
    assert max(map(len, text.splitlines())) <= width
    shown = [word for word in text.split() if word.startswith("metric")]
    assert sorted(shown) == sorted(name.split()[0] for name in names)
    for number in range(12):
        assert re.search(rf"(?<![\d.]){number}\.5(?!\d)", text)
    parts = {24: 12, 40: 6, 80: 2, 400: 1}[width]
    assert text.count("variant") == parts


def test_a_row_is_left_out_where_it_has_nothing() -> None:
    rows = [("ipsec", "1", "-"), ("quic", "-", "2")]
    console = Console(width=14, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(output.WideTable(("variant", "goodput", "rtt"), rows, "-"))
    first, second = captured.get().split("\n\n")
    assert "ipsec" in first and "quic" not in first  # noqa: PT018
    assert "quic" in second and "ipsec" not in second  # noqa: PT018
