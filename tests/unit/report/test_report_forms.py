"""The forms of a report: what scripts read, what people see, and what hostile names cannot do."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from matplotlib.image import imread

import synthetic
from hawser.report.build import build
from hawser.report.model import Report
from hawser.report.render import FORMATS, render
from hawser.spec.workflow import Assertion
from hawser.store import Bundle

GOLDEN = Path(__file__).with_name("golden") / "quickstart.json"
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "div",
    "h1", "h2", "h3", "p", "ul", "li", "span", "b", "small", "strong", "code", "pre", "dl", "dt",
    "dd", "figure", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary",
    "svg", "path", "rect", "circle", "polygon", "text",
}  # fmt: skip


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data


def rendered(report: Report, form: str) -> str:
    return render(report, form).decode()  # type: ignore[arg-type]  # the test names a form


def test_json_is_what_scripts_rely_on(quickstart: Report) -> None:
    """Compare with tests/unit/report/golden/quickstart.json; HAWSER_GOLDEN=1 writes it anew."""
    found = json.loads(rendered(quickstart, "json"))
    if os.environ.get("HAWSER_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert approximately(found) == approximately(json.loads(GOLDEN.read_text()))


def approximately(value: object) -> object:
    """The value with its numbers to nine digits: the last ones are the processor's."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [approximately(item) for item in value]
    if isinstance(value, dict):
        return {name: approximately(item) for name, item in value.items()}
    return value


def test_json_has_the_published_form(table1: Report) -> None:
    found = json.loads(rendered(table1, "json"))
    assert found["run"] == "mms-table1-20260105T120000-c0de"
    assert (found["workflow"], found["valid"], found["excluded"]) == ("mms-table1", True, [])
    row = next(row for row in found["rows"] if row["metric"] == "goodput")
    assert row["variant"] == {"rates": "10:10:10:10", "scheme": "tcp-ipomp"}
    assert (row["unit"], row["direction"], row["n"]) == ("Mbit/s", "forward", 5)
    assert row["min"] <= row["median"] <= row["max"]
    assert row["ci95"][0] < row["median"] < row["ci95"][1]
    assert row["ci95_confidence"] == 0.9375
    assert row["reference"]["value"] == 36.5
    assert row["bounds"] == {"together": pytest.approx(40), "single": pytest.approx(10)}


def test_csv_has_a_row_a_figure(table1: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(rendered(table1, "csv"))))
    assert len(rows) == len(table1.rows)
    for found, row in zip(rows, table1.rows, strict=True):
        assert found["v_rates"] == row.variant["rates"]
        assert float(found["median"]) == row.summary.median
        interval = row.summary.interval
        assert found["ci95_low"] == ("" if interval is None else str(interval.low))
    assert rows[2]["metric"] == "goodput"
    assert (rows[2]["reference"], rows[0]["reference"]) == ("36.5", "")


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_run_gives_the_same_bytes(form: str, quickstart_path: Path) -> None:
    first, second = (build(Bundle.open(quickstart_path)) for _ in range(2))
    assert render(first, form) == render(second, form)  # type: ignore[arg-type]


def test_a_report_from_parquet_is_the_same_as_one_from_trials(quickstart_path: Path) -> None:
    before = render(build(Bundle.open(quickstart_path)), "json")
    parquet = quickstart_path / "samples.parquet"
    content = parquet.read_bytes()
    parquet.unlink()
    try:
        assert render(build(Bundle.open(quickstart_path)), "json") == before
    finally:
        parquet.write_bytes(content)


def test_the_page_stands_alone(table1: Report) -> None:
    page = Page(rendered(table1, "html"))
    assert page.tags <= ALLOWED
    assert page.links == []
    assert not re.search(r"url\(|@import|https?://", rendered(table1, "html"))
    for text in (*table1.finding, "mptcp-end-to-end", table1.manifest.run, "hawser run"):
        assert text in page.text
    for source in ("net.mptcp.scheduler", "iperf 3.12", "Synthetic CPU", "Seed of the order"):
        assert source in page.text


def test_the_page_tells_what_must_not_be_relied_on(hostile: Report) -> None:
    broken = hostile.model_copy(update={"problems": ("the run is incomplete",)})
    for form in ("html", "md", "text"):
        assert "must not be relied on" in rendered(broken, form)


def test_hostile_names_stay_text_in_html(hostile: Report) -> None:
    text = rendered(hostile, "html")
    page = Page(text)
    assert page.tags <= ALLOWED
    assert not {name for name in page.attributes if name.startswith("on")}
    assert page.links == []
    assert "<script>alert(1)</script>" in page.text
    assert "49" not in re.findall(r"markup\[/\] (\S+)", page.text)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)


def test_hostile_names_stay_text_in_markdown(hostile: Report) -> None:
    text = rendered(hostile, "md")
    lines = text.splitlines()
    page = Page(MarkdownIt("commonmark").enable("table").render(text))
    assert page.tags <= ALLOWED
    assert page.links == []
    assert "<script>alert(1)</script>" in page.text
    assert [line for line in lines if line.startswith("# ")] == lines[:1]
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]
    blocks = "\n".join(lines).split("\n\n")
    for block in blocks:
        rows = [row for row in block.splitlines() if row.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1
    assert widths
    assert "\x1b" not in text


def test_hostile_names_steer_no_terminal(hostile: Report) -> None:
    text = rendered(hostile, "text")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)
    assert "[bold red]markup" in text


def test_hostile_numbers_are_json(hostile: Report) -> None:
    rows = json.loads(rendered(hostile, "json"))["rows"]
    assert {row["median"] for row in rows} >= {1e100, -1e100, 5e-324}


def test_the_picture_is_a_picture(table1: Report, hostile: Report) -> None:
    for report in (table1, hostile):
        pixels = imread(io.BytesIO(render(report, "png")))
        assert pixels.shape[1] == 2240
        assert 800 < pixels.shape[0] < 6000
        assert pixels[..., :3].std() > 0.02


def test_text_has_every_headline_figure(quickstart: Report) -> None:
    text = rendered(quickstart, "text")
    for row in quickstart.headline:
        assert f"{row.summary.median:.3g}" in text
    assert "iperf3: connection reset" in text
    assert max(map(len, text.splitlines())) <= 110


def test_an_assertion_that_fails_stands_out(tmp_path: Path) -> None:
    workflow = synthetic.quickstart(5)
    hopeless = (Assertion(variant={"transport": "ipomp"}, metric="goodput", at_least=1e6),)
    workflow = workflow.model_copy(update={"assertions": hopeless})
    page = rendered(build(Bundle.open(synthetic.write(tmp_path, workflow))), "html")
    assert '<td class="n fails">fails</td>' in page
    sheet = page.partition("<style>")[2].partition("</style>")[0]
    assert "td.fails" in sheet
