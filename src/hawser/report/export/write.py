"""Writes figures, tables and the document of a run into a folder."""

from __future__ import annotations

import csv
import io
import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from hawser.report import attacks, cloud, collect, data, tables
from hawser.report.export import content, heat_map, latex
from hawser.report.export.ecdf import ecdf
from hawser.report.export.over_time import over_time
from hawser.report.export.strip import strip
from hawser.report.export.style import COLUMN, Scale, drawing
from hawser.report.export.tradeoff import tradeoff
from hawser.report.model import Report
from hawser.report.page import events
from hawser.report.tables import Table
from hawser.store import Bundle

_ENGINES = ("pdflatex", "xelatex", "lualatex")
"""LaTeX programs that can size the texts of a PGF figure."""
_MOST = 60
"""Figures of one export; a run with counters of many queues would have hundreds."""


class ExportError(Exception):
    """The folder cannot be written to."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    files: tuple[Path, ...]
    remarks: tuple[str, ...]
    """What is missing, and why."""


@dataclass(frozen=True)
class _Drawn:
    name: str
    caption: str
    figure: Figure

    @property
    def wide(self) -> bool:
        return bool(self.figure.get_size_inches()[0] > COLUMN)


def export(bundle: Bundle, report: Report, folder: Path, scale: Scale = "auto") -> Exported:
    """Write `report.tex`, `figures/` and `tables/`.

    Args:
        bundle: the run.
        report: its report.
        folder: created if missing; files of the same names are replaced.
        scale: of the axes of values.

    Raises:
        ExportError: a file cannot be written.
        BundleError: the run is damaged.
    """
    try:
        for name in ("figures", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        return _export(bundle, report, folder, scale)
    except OSError as error:
        raise ExportError(f"{error.filename or folder}: {error.strerror or error}") from error


def _export(bundle: Bundle, report: Report, folder: Path, scale: Scale) -> Exported:
    engine = next((name for name in _ENGINES if shutil.which(name)), None)
    drawn = _figures(bundle, report, scale)
    kept = list(itertools.islice(drawn, _MOST))
    files = [file for one in kept for file in _save(one, folder / "figures", engine)]
    shown = list(_tables(report))
    for name, found in shown:
        file = folder / "tables" / f"{name}.tex"
        file.write_text(latex.table(found), encoding="utf-8")
        files.append(file)
    for name, text in _numbers(report):
        file = folder / "tables" / f"{name}.csv"
        file.write_text(text, encoding="utf-8", newline="")
        files.append(file)
    document = folder / "report.tex"
    figured = [latex.Figured(f"figures/{one.name}", one.caption, one.wide) for one in kept]
    names = [name for name, _ in shown]
    document.write_text(latex.document(report, figured, names), encoding="utf-8")
    remarks = []
    if engine is None:
        remarks.append(f"no PGF figures: they need one of {', '.join(_ENGINES)}")
    if next(drawn, None) is not None:
        remarks.append(f"more than {_MOST} figures: the others were left out")
    return Exported(folder, (document, *files), tuple(remarks))


def _figures(bundle: Bundle, report: Report, scale: Scale) -> Iterator[_Drawn]:
    layout = report.layout
    for quantity, rows in content.by_metric(report):
        interval = any(row.summary.interval for row in rows)
        bar = "the 95 % interval of the median" if interval else "the range of the runs"
        text = f"{quantity.title} ({quantity.where}). Dots are runs, markers medians, bars {bar}."
        yield _Drawn(f"runs-{quantity.slug}", text, strip(quantity, rows, layout, scale))
        if heat_map.suits(layout):
            made = heat_map.heat_map(quantity, rows, layout, scale)
            if made is not None:
                text = f"{quantity.title} ({quantity.where}), medians of the runs."
                yield _Drawn(f"map-{quantity.slug}", text, made)
    yield from _tradeoff(report, scale)
    yield from _within(bundle, report, scale)


def _within(bundle: Bundle, report: Report, scale: Scale) -> Iterator[_Drawn]:
    """Figures of what happened within runs."""
    layout, happened = report.layout, events(report)
    series = list(content.series(collect.collect(bundle), layout))
    spread = [
        (quantity, panels) for quantity, panels in series if content.distributed(quantity, panels)
    ]
    for quantity, panels in (*spread, *content.delays(bundle, layout)):
        text = f"Distribution of {quantity.name} ({quantity.where}), all runs together."
        made = ecdf(quantity, panels, layout.series, scale)
        yield _Drawn(f"ecdf-{quantity.slug}", text, made)
    for quantity, panels in series:
        text = f"{quantity.title} ({quantity.where}) over time: runs, and their median."
        made = over_time(quantity, panels, layout.series, happened, scale)
        yield _Drawn(f"time-{quantity.slug}", text, made)


def _tradeoff(report: Report, scale: Scale) -> Iterator[_Drawn]:
    found = content.tradeoffs(report)
    if found is not None:
        throughput, delay, variants = found
        text = (
            f"{throughput.title} ({throughput.where}) against {delay.name} ({delay.where})."
            " Dots are runs, markers medians, ellipses one standard deviation."
        )
        made = tradeoff(throughput, delay, variants, report.layout, scale)
        yield _Drawn(f"tradeoff-{throughput.slug}-{delay.slug}", text, made)


def _save(one: _Drawn, folder: Path, engine: str | None) -> list[Path]:
    """Write a figure in all its forms. The same figure gives the same bytes."""
    files = []
    for form, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
        file = folder / f"{one.name}.{form}"
        with drawing():
            one.figure.savefig(file, format=form, metadata=metadata)
        files.append(file)
    if engine is not None:
        file = folder / f"{one.name}.pgf"
        _for_latex(one.figure)
        with drawing(), mpl.rc_context({"pgf.texsystem": engine}):
            one.figure.savefig(file, format="pgf")
        # Exponents of logarithmic axes use this macro, which matplotlib leaves to the document.
        file.write_text(r"\providecommand{\mathdefault}[1]{#1}" + "\n" + file.read_text())
        files.append(file)
    return files


def _for_latex(figure: Figure) -> None:
    """Escape the texts of a figure: PGF hands them to LaTeX as they are."""
    for text in figure.findobj(Text):
        if not latex.is_formula(text.get_text()):
            text.set_text(latex.in_figure(text.get_text()))
            text.set_parse_math(False)  # it would take the backslash from a dollar sign
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            known = axis.get_major_formatter()
            if isinstance(known, FixedFormatter):
                axis.set_major_formatter(FixedFormatter([*map(latex.in_figure, known.seq)]))


def _tables(report: Report) -> Iterator[tuple[str, Table]]:
    """Tables of the document with names of their files."""
    numbered = enumerate(tables.results(report), start=1)
    yield from ((f"results-{number}", found) for number, found in numbered)
    others = {
        "comparisons": tables.comparisons(report),
        "regressions": tables.regressions(report),
        "assertions": tables.assertions(report),
        "bottlenecks": tables.bottlenecks(report),
        "cloud": cloud.elements(report.workflow),
        "confusion-matrix": attacks.matrix(report),
        "attacks": attacks.by_attack(report),
        "exclusions": tables.exclusions(report),
        "order": tables.order(report),
    }
    yield from ((name, found) for name, found in others.items() if found is not None)


def _numbers(report: Report) -> Iterator[tuple[str, str]]:
    """Tables as CSV with all digits."""
    yield "results", data.table(report)
    yield "runs", _written(data.runs(report))
    yield "comparisons", _written(data.comparisons(report))


def _written(rows: Sequence[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()
