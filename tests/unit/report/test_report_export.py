"""Figures, tables and document for papers."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synthetic
from hawser.report import document
from hawser.report.build import build
from hawser.report.data import document as report_document
from hawser.report.export import content, write
from hawser.report.export.latex import escape, in_figure
from hawser.report.export.latex import table as latex_table
from hawser.report.export.style import logarithmic
from hawser.report.export.write import ExportError, export
from hawser.report.model import Report
from hawser.report.tables import Table
from hawser.store import Bundle, Sample

SCHEMA = Path(__file__).parents[3] / "schemas" / "report.schema.json"


def echoes(count: int = 30) -> list[Sample]:
    """Round-trip times within a trial, over three decades."""
    return [
        Sample(
            measurement="rtt", metric="rtt", unit="ms", kind="interval", time=at / 10,
            value=0.1 * 10 ** (3 * at / count),
        )
        for at in range(count)
    ]  # fmt: skip


LOAD = {
    "received": {
        "streams": [{"delay": {"buckets": [[0, 0, 0], [1_000_000, 3_000_000, 9], [4e6, 6e6, 1]]}}]
    }
}
"""What `hawserd load` found: 2 ms nine times, 5 ms once."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("runs")
    bundle = Bundle.open(synthetic.write(folder, synthetic.table1(2), extra=echoes()))
    for trial in bundle.trials:
        (trial.path / "raw").mkdir(exist_ok=True)
        (trial.path / "raw" / "voice.load.json").write_text(json.dumps(LOAD))
    return bundle


def exported(bundle: Bundle, folder: Path, engines: tuple[str, ...] = ()) -> write.Exported:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "_ENGINES", engines)
        return export(bundle, build(bundle), folder)


@pytest.fixture(scope="module")
def folder(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = exported(bundle, tmp_path_factory.mktemp("export"))
    assert done.remarks == ("no PGF figures: they need one of ",)
    return done.folder


def test_every_kind_of_figure_is_there(folder: Path) -> None:
    names = {file.name for file in (folder / "figures").iterdir()}
    for name in (
        "runs-tcp-goodput-forward",
        "map-tcp-goodput-forward",
        "tradeoff-tcp-goodput-forward-rtt-rtt",
        "ecdf-rtt-rtt",
        "ecdf-voice-delay-forward",
        "time-tcp-goodput-forward",
    ):
        assert {f"{name}.svg", f"{name}.pdf"} <= names


def test_figures_are_whole_and_have_text_that_can_be_searched(folder: Path) -> None:
    for file in (folder / "figures").glob("*.svg"):
        assert Xml.parse(file).getroot().tag.endswith("svg")  # noqa: S314 (our own file)
    text = (folder / "figures" / "runs-tcp-goodput-forward.svg").read_text()
    assert "Goodput, Mbit/s" in text
    for file in (folder / "figures").glob("*.pdf"):
        content = file.read_bytes()
        assert content.startswith(b"%PDF")
        assert b"/Type3" not in content.replace(b" ", b"")  # which publishers refuse


def test_the_same_run_gives_the_same_files(bundle: Bundle, folder: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "_MOST", 3)
        again = exported(bundle, tmp_path)
    assert "more than 3 figures: the others were left out" in again.remarks
    for file in again.files:
        if file.name != "report.tex":
            mine = (folder / file.relative_to(tmp_path)).read_bytes()
            assert file.read_bytes() == mine, file.name


def test_delays_of_loads_come_from_their_histograms(bundle: Bundle) -> None:
    ((quantity, panels),) = content.delays(bundle, build(bundle).layout)
    assert (quantity.measurement, quantity.metric, quantity.unit) == ("voice", "delay", "ms")
    assert len(panels) == 4
    assert panels[0].series["tcp-ipomp"][0] == ((9.0, 2.0), (1.0, 5.0))


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"received": null}', '{"received": {"streams": [1]}}']
)
def test_a_histogram_that_is_damaged_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.load.json").write_text(text)
    assert content._histogram(tmp_path / "x.load.json") == ()


def test_delays_over_three_decades_have_a_logarithmic_axis(folder: Path) -> None:
    assert "10^" in (folder / "figures" / "ecdf-rtt-rtt.svg").read_text()


@pytest.mark.parametrize(
    ("values", "scale", "log"),
    [
        ([1.0, 99.0], "auto", False),
        ([1.0, 101.0], "auto", True),
        ([0.0, 1000.0], "auto", False),
        ([0.0, 1000.0], "log", False),
        ([1.0, 2.0], "log", True),
        ([1.0, 1e6], "linear", False),
        ([], "log", False),
    ],
)
def test_scale(values: list[float], scale: str, log: bool) -> None:
    assert logarithmic(values, scale) is log  # type: ignore[arg-type]


def test_numbers_are_whole_in_csv(folder: Path, bundle: Bundle) -> None:
    report = build(bundle)
    with (folder / "tables" / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == sum(len(row.runs) for row in report.rows)
    first = report.rows[0]
    mine = [float(row["value"]) for row in rows[: len(first.runs)]]
    assert mine == list(first.values)
    with (folder / "tables" / "comparisons.csv").open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == len(report.comparisons)


def test_the_document_names_only_what_is_there(folder: Path) -> None:
    text = (folder / "report.tex").read_text()
    for name in re.findall(r"\\input\{(.+)\}", text):
        assert (folder / f"{name}.tex").exists()
    figures = re.findall(r"\\includegraphics\[.+\]\{(.+)\}", text)
    assert len(figures) >= 5
    assert all((folder / f"{name}.pdf").exists() for name in figures)


def test_a_folder_that_cannot_be_made_is_told(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="file"):
        exported(bundle, tmp_path / "file")


@given(st.text())
def test_no_character_has_an_effect_in_latex(text: str) -> None:
    made = escape(text)
    assert made.isprintable()
    assert not re.search(r"(?<!\\)[#$%&_^]", made)
    assert made.count("{") - made.count(r"\{") == made.count("}") - made.count(r"\}")
    for command in re.findall(r"\\([a-z]+)", made):
        assert command.startswith("text") or command in ("ensuremath", "ldots") or command in (
            "times", "pm", "rightarrow", "le", "ge",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("50 % of a_b", r"50 \% of a\_b"),
        ("1\N{EN DASH}2", "1--2"),
        ("a--b", "a-{}-{}b"),
        ("2.5\N{MULTIPLICATION SIGN}", r"2.5\ensuremath{\times}"),
        ("Zürich", "Zürich"),
        ("日本", "??"),
        ("ﬁle", "file"),
    ],
)
def test_escape(text: str, made: str) -> None:
    assert escape(text) == made


def test_formulas_of_axes_stay_and_dollars_of_names_do_not() -> None:
    assert in_figure(r"$\mathdefault{10^{1}}$") == r"$\mathdefault{10^{1}}$"
    assert in_figure(r"5 \$ a_b") == r"5 \$ a\_b"


@pytest.mark.parametrize("first", ["[2] x", "*"])
def test_a_cell_is_no_argument_of_the_row_before(first: str) -> None:
    made = latex_table(Table("t", ("a", "b"), (("x", "y"), (first, "z"))))
    assert not re.search(r"(\\\\|\\midrule)\s*[\[*]", made)


def test_a_long_table_breaks_across_pages() -> None:
    rows = tuple((str(at), "x") for at in range(60))
    assert r"\begin{longtable}" in latex_table(Table("t", ("a", "b"), rows))
    assert "longtable" not in latex_table(Table("t", ("a", "b"), rows[:5]))


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX: texlive-latex-recommended")
def test_the_document_compiles_also_with_hostile_names(tmp_path: Path) -> None:
    """Of a run whose names attack every form; PGF figures are compiled too."""
    folder = tmp_path / "runs"
    folder.mkdir()
    workflow = synthetic.quickstart(3).model_copy(
        update={"title": r"50% of \input{/etc/passwd} & #1_$x^2$ ~ {"}
    )
    extra = [
        Sample(
            measurement=r"a_b%\x", metric="x_y&z", unit="_%#$", value=float(at), subject="#$^~",
            kind="interval", time=float(at),
        )
        for at in (1, 2)
    ]  # fmt: skip
    bundle = Bundle.open(synthetic.write(folder, workflow, extra=[*extra, *echoes()]))
    done = exported(bundle, tmp_path / "export", ("pdflatex",))
    pgf = sorted(file for file in done.files if file.suffix == ".pgf")
    assert len(pgf) >= 4
    document = done.folder / "report.tex"
    text = document.read_text().replace(r"\usepackage{graphicx}", r"\usepackage{graphicx,pgf}")
    inputs = "\n".join(rf"\input{{figures/{file.name}}}\par" for file in pgf)
    document.write_text(text.replace(r"\end{document}", inputs + "\n\\end{document}"))
    done_latex = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"],
        cwd=done.folder, capture_output=True, text=True, errors="replace", timeout=120, check=False,
    )  # fmt: skip
    assert done_latex.returncode == 0, done_latex.stdout[-2000:]
    assert "Output written on report.pdf" in done_latex.stdout.replace("\n", " ")


def test_the_schema_is_the_committed_one() -> None:
    """`make schemas` writes it anew."""
    assert json.loads(SCHEMA.read_text()) == document.schema()


def test_reports_fit_the_schema(quickstart: Report, table1: Report, hostile: Report) -> None:
    check = jsonschema.Draft202012Validator(document.schema())
    for report in (quickstart, table1, hostile):
        check.validate(report_document(report))


def test_the_schema_describes_every_own_field_that_needs_it() -> None:
    definitions = document.schema()["$defs"]
    for name in ("RowDocument", "RatioDocument"):
        described = [f for f in definitions[name]["properties"].values() if "description" in f]
        assert len(described) >= 3
