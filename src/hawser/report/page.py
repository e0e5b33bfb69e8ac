"""The report as one HTML file, without scripts and without resources from the network."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hawser.report import attacks, cloud, tables
from hawser.report.figures.cases import cases, suits
from hawser.report.figures.dots import dots
from hawser.report.figures.facets import distribution, over_time
from hawser.report.figures.scene import Scene
from hawser.report.figures.svg import svg
from hawser.report.figures.topology import picture
from hawser.report.judge import ranking
from hawser.report.model import Report, Row
from hawser.report.words import (
    clean,
    count,
    effect_interval,
    effect_value,
    middle,
    number,
    percent,
    term,
)
from hawser.spec.workflow import Event

WIDE, HALF, NARROW = 1040.0, 505.0, 342.0
"""Widths of figures, pixels: a page, half a page, a phone."""

_MOST_CHARTS = 12
_MOST_TILES = 5


def environment() -> Environment:
    """The templates, with all text escaped and cleaned of control characters."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            clean(value, 100_000)
            if isinstance(value, str) and not isinstance(value, Markup)
            else value
        ),
    )


def html(report: Report) -> str:
    """Write the page. The same report gives the same bytes."""
    manifest = report.manifest
    return (
        environment()
        .get_template("report.html")
        .render(
            report=report,
            started=f"{manifest.started:%d %B %Y, %H:%M %Z}".lstrip("0"),
            said=_said(report),
            runs=count(len({r.trial for row in report.headline for r in row.runs}), "run"),
            tiles=tiles(report),
            chart=_main(report),
            cases=suits(report.layout),
            topology=figure(picture(report.workflow, WIDE), picture(report.workflow, NARROW)),
            within=_within(report),
            others=_others(report),
            measurements=tables.measurements(report),
            results=tables.results(report),
            comparisons=tables.comparisons(report),
            regressions=tables.regressions(report),
            bottlenecks=tables.bottlenecks(report),
            cloud=cloud.elements(report.workflow),
            attacks=attacks.tables(report),
            assertions=tables.assertions(report),
            exclusions=tables.exclusions(report),
            order=tables.order(report),
            counters=tables.counters(report),
            provenance=tables.provenance(report),
            settings=tables.settings(report),
            command=shlex.join(manifest.command),
        )
    )


def _said(report: Report) -> str:
    """What became of the assertions."""
    verdicts = {outcome.verdict for outcome in report.outcomes}
    if "fails" in verdicts:
        return "an assertion failed"
    return "assertions hold" if verdicts == {"holds"} else "an assertion is undecided"


def figure(wide: Scene, narrow: Scene) -> Markup:
    """A figure in two widths; the style sheet shows the one that fits the page."""
    return Markup(svg(wide, "wide") + "\n" + svg(narrow, "narrow"))  # noqa: S704 (svg escapes all text)


def _main(report: Report) -> Markup | None:
    if not report.headline:
        return None
    return _dots(report, report.headline)


def _dots(report: Report, rows: Sequence[Row], width: float = WIDE) -> Markup:
    if suits(report.layout):
        return figure(cases(rows, report.layout, WIDE), cases(rows, report.layout, NARROW))
    return figure(
        dots(rows, report.layout, width, columns=True),
        dots(rows, report.layout, NARROW, columns=False),
    )


def _within(report: Report) -> list[Markup]:
    """Charts of the time within the runs."""
    if not report.series or suits(report.layout):
        return []
    about, layout = report.headline[0], report.layout
    width = WIDE if len(layout.groups) > 1 else HALF
    happened = events(report)
    return [
        figure(
            over_time(report.series, about, layout, width, happened),
            over_time(report.series, about, layout, NARROW, happened),
        ),
        figure(
            distribution(report.series, about, layout, width),
            distribution(report.series, about, layout, NARROW),
        ),
    ]


def events(report: Report) -> dict[str, list[tuple[float, str]]]:
    """Events of each group whose headline metric is of the trial's first measurement.

    Events are timed from the start of that measurement, as its time series are.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    about = {row.measurement for row in report.headline}
    for variant in report.workflow.variants:
        if next(iter(variant.scenario.measurements)) in about:
            group = found.setdefault(report.layout.group(variant.labels), [])
            happened = ((float(e.at), _event(e)) for e in variant.scenario.events)
            group += (one for one in happened if one not in group)
    return found


def _event(event: Event) -> str:
    change = event.change
    said = ["" if change.up is None else "up" if change.up else "down"]
    said += (str(value) for value in (change.rate, change.queue) if value is not None)
    return " ".join(filter(None, (event.element.partition(":")[2], *said)))


def _others(report: Report) -> list[Markup]:
    """Charts of the other metrics that vary."""
    charts: dict[tuple[str, ...], list[Row]] = {}
    for row in tables.others(report):
        key = (row.measurement, row.metric, row.unit, row.direction, row.subject)
        charts.setdefault(key, []).append(row)
    moving = [rows for rows in charts.values() if len({v for r in rows for v in r.values}) > 1]
    width = WIDE if len(report.layout.groups) > 1 else HALF
    return [_dots(report, rows, width) for rows in moving[:_MOST_CHARTS]]


def tiles(report: Report) -> list[tuple[str, str, str]]:
    """The key figures: number, meaning, and what it belongs to."""
    found: list[tuple[str, str, str]] = []
    if report.headline:
        found = _lead_tiles(report) if len(report.layout.groups) == 1 else _group_tiles(report)
    excluded = f"{len(report.excluded)} excluded" if report.excluded else "none excluded"
    n = len({run.trial for row in report.headline for run in row.runs})
    variants = count(len(report.headline), "variant")
    return [*found, (str(n), "runs in the statistics", f"{variants}, {excluded}")]


def _lead_tiles(report: Report) -> list[tuple[str, str, str]]:
    lead = _lead(report)
    name, words = report.layout.name(lead.variant), term(lead.metric)
    median = middle(lead.summary)
    found = [(f"{median} {lead.unit}", words.title.lower(), f"{name}, median")]
    for one in (*report.comparisons[:1], *report.comparisons[1:][-1:]):
        effect, other = one.effect, report.layout.series_of(one.against, beside=one.variant)
        sure = f"95 % CI {effect_interval(effect)}" if effect.interval else "too few runs"
        if one.variant != lead.variant:
            sure = f"{report.layout.name(one.variant)}, {sure}"
        compared = words.compared(other) if effect.kind == "ratio" else f"compared with {other}"
        found.append((effect_value(effect), compared, sure))
    if lead.bounds is not None:
        share = percent(lead.summary.median / lead.bounds.together)
        together = f"{number(lead.bounds.together)} {lead.unit} on the wire"
        found.append((share, "of all paths together", together))
    return found


def _group_tiles(report: Report) -> list[tuple[str, str, str]]:
    """The best variant of each of the first groups."""
    found = []
    for group in report.layout.groups[:_MOST_TILES]:
        rows = [row for row in report.headline if report.layout.group(row.variant) == group]
        for lead in ranking(rows)[:1]:
            median = f"{middle(lead.summary)} {lead.unit}"
            found.append((median, group, report.layout.name(lead.variant)))
    return found


def _lead(report: Report) -> Row:
    return ranking(report.headline)[0]
