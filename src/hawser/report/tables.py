"""The tables of a report with cells as text; all formats of the report show the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hawser.report.collect import IPSEC, USAGE
from hawser.report.model import Checked, Comparison, Regression, Report, Row
from hawser.report.words import (
    DASH,
    TIMES,
    count,
    effect_interval,
    effect_value,
    interval,
    join,
    middle,
    number,
    percent,
    probability,
    term,
    way,
)
from hawser.spec.measurement import Measurement
from hawser.spec.metric import ATTACKS
from hawser.spec.workflow import Labels
from hawser.store import label


@dataclass(frozen=True)
class Table:
    """A table with a caption. The first `names` columns hold names, the others numbers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1


def results(report: Report) -> list[Table]:
    """One table a metric, the headline's first."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in (*report.headline, *others(report)):
        headline = row in report.headline
        key = ("",) if headline else (row.measurement, row.metric, row.direction, row.subject)
        groups.setdefault(key, []).append(row)
    return [_result(report, rows) for rows in groups.values()]


def others(report: Report) -> list[Row]:
    """Rows beside the headline's that have tables and charts of their own.

    Those of single attacks share one table (`report.attacks`).
    """
    return [
        row
        for row in report.rows
        if row not in report.headline and not (row.metric in ATTACKS and row.subject)
    ]


def _result(report: Report, rows: Sequence[Row]) -> Table:
    axes = axes_of(report)
    published = any(row.reference for row in rows)
    extra = ("published", "ratio to it") if published else ()
    columns = ("n", "median", "95 % CI", "mean", "sd", "CoV", "range")
    void = any(row.with_void is not None for row in rows)
    extra = (*(("median with void runs",) if void else ()), *extra)
    return Table(
        caption(rows),
        (*axes, *columns, *extra),
        tuple(
            (
                *names_of(axes, row.variant),
                *_numbers(row),
                *((number(row.with_void),) if void else ()),
                *(_published(row) if published else ()),
            )
            for row in rows
        ),
        len(axes),
    )


def caption(rows: Sequence[Row]) -> str:
    """Caption of a metric's table or chart."""
    row = rows[0]
    measurements = ", ".join(dict.fromkeys(row.measurement for row in rows))
    where = ", ".join(filter(None, (measurements, row.subject, way(row.direction))))
    return f"{term(row.metric).title}, {row.unit} ({where})"


def axes_of(report: Report) -> tuple[str, ...]:
    """Names of the columns that identify variants."""
    layout = report.layout
    return (*layout.group_axes, layout.axis) if layout.axis else ("variant",)


def names_of(axes: Sequence[str], variant: Labels) -> tuple[str, ...]:
    """Give the values of a variant on axes, or its label where it is on none."""
    if not any(axis in variant for axis in axes):
        return (label(variant),)
    return tuple(variant.get(axis, DASH) for axis in axes)


def _numbers(row: Row) -> tuple[str, ...]:
    found = row.summary
    return (
        str(found.n),
        middle(found),
        interval(found.interval),
        number(found.mean),
        number(found.sd),
        percent(found.cov),
        f"{number(found.minimum)}{DASH}{number(found.maximum)}",
    )


def _published(row: Row) -> tuple[str, str]:
    if row.reference is None:
        return DASH, DASH
    value = row.reference.value
    ratio = f"{row.summary.median / value:.2f}{TIMES}" if value else DASH
    return number(value), ratio


def comparisons(report: Report) -> Table | None:
    """The best variant of each group, or every variant and the baseline, compared."""
    if not report.comparisons:
        return None
    layout = report.layout
    grouped = len(layout.groups) > 1
    head = (" / ".join(layout.group_axes),) if grouped else ()
    plain = {one.effect.kind for one in report.comparisons} == {"ratio"}
    return Table(
        "Ratio" if plain else "Ratio, or difference if a value is not positive",
        (*head, "variant", "compared with", "ratio" if plain else "effect", "95 % CI", "repeats",
         "p (Holm)", "different"),
        tuple(
            (*((c.group,) if grouped else ()), *_compared(report, c)) for c in report.comparisons
        ),
        len(head) + 2,
    )  # fmt: skip


def regressions(report: Report) -> Table | None:
    """Every metric compared with the earlier run that the run is made against."""
    rows = [
        (
            label({name: value for name, value in one.variant.items() if name != "version"}),
            " ".join(filter(None, (one.measurement, one.metric, one.subject))),
            effect_value(one.effect),
            effect_interval(one.effect),
            probability(one.effect.adjusted),
            _changed(one),
        )
        for one in report.regressions
    ]
    caption = f"Compared with {report.manifest.against}, interleaved"
    columns = ("variant", "metric", "now / before", "95 % CI", "p (Holm)", "now")
    return _table(caption, columns, rows, 2)


def _changed(one: Regression) -> str:
    if one.effect.verdict is None:
        return "too few repeats"
    if one.worse:
        return "worse"
    return "better" if one.effect.clear else "no difference shown"


def _compared(report: Report, one: Comparison) -> tuple[str, ...]:
    found = one.effect
    return (
        report.layout.series_of(one.variant),
        report.layout.series_of(one.against, beside=one.variant),
        effect_value(found),
        effect_interval(found),
        str(found.n) if found.paired else f"{found.n} (unpaired)",
        probability(found.adjusted),
        {True: "yes", False: "not shown", None: "too few runs"}[found.verdict],
    )


def bottlenecks(report: Report) -> Table | None:
    """The bottleneck of each variant, by measurement."""
    axes = axes_of(report)
    several = len({one.measurement for one in report.bottlenecks}) > 1
    rows = [
        (
            *names_of(axes, one.variant),
            *((one.measurement,) if several else ()),
            one.text,
            one.next or DASH,
            f"{one.runs} of {one.of}",
        )
        for one in report.bottlenecks
    ]
    head = (*axes, *(("measurement",) if several else ()))
    columns = (*head, "limited by", "next", "runs")
    return _table("Bottlenecks", columns, rows, len(columns) - 1)


def assertions(report: Report) -> Table | None:
    """The workflow's assertions and whether they hold."""
    rows: list[tuple[str, ...]] = []
    for outcome in report.outcomes:
        if not outcome.checked:
            rows.append((outcome.text, DASH, "not measured", DASH, DASH, "fails"))
        rows += [(outcome.text, *_checked(one)) for one in outcome.checked]
    columns = ("assertion", "variant", "found", "one-sided 95 % bounds", "p (Holm)", "outcome")
    return _table("Assertions", columns, rows, 2)


def _checked(one: Checked) -> tuple[str, ...]:
    bounds = [
        f"{words} {number(limit)}"
        for words, limit in (("at least", one.low), ("at most", one.high))
        if limit is not None
    ]
    return (
        label(one.variant),
        number(one.value),
        ", ".join(bounds) or DASH,
        probability(one.p),
        one.verdict + (f": {one.reason}" if one.reason else ""),
    )


def exclusions(report: Report) -> Table | None:
    """The runs left out of all statistics."""
    rows = [(str(e.trial), label(e.variant), str(e.repeat), e.reason) for e in report.excluded]
    return _table("Excluded runs", ("trial", "variant", "repeat", "reason"), rows, 4)


def order(report: Report) -> Table | None:
    """Effects of the order of trials."""
    rows = []
    for one in report.order:
        check = one.check
        verdict = [
            *(["trend"] if check.trend else []),
            *(["correlated"] if check.dependent else []),
        ]
        rows.append(
            (
                f"{one.measurement} {one.metric}",
                str(check.n),
                f"{100 * check.slope:+.3f} %" if one.relative else number(check.slope),
                f"{check.trend_p:.2g}",
                f"{check.lag1:+.2f}",
                ", ".join(verdict) or "none",
            )
        )
    columns = ("metric", "n", "slope per trial", "trend p", "lag-1", "effect of the order")
    return _table("Order of trials", columns, rows, 1)


def counters(report: Report) -> list[Table]:
    """Counters of links and daemons, medians over the runs: a row a variant, a column a counter."""
    families: dict[str, list[Row]] = {}
    for row in report.passive:
        families.setdefault(_family(row), []).append(row)
    return [_counters(report, name, families[name]) for name in sorted(families)]


def _family(row: Row) -> str:
    """Caption of the table that a counter belongs to."""
    if row.metric in USAGE:
        return "Used: CPU time in % of one core, peak memory in MiB"
    if row.metric == "tx_bytes":
        return "Carried, MB"
    if row.metric in IPSEC:
        return IPSEC[row.metric]
    cause = row.metric.replace("drop_", "").replace("_", " ")
    return f"Dropped: {cause}, {row.unit}"


def _counters(report: Report, name: str, rows: Sequence[Row]) -> Table:
    columns = list(dict.fromkeys(map(_counter, rows)))
    if rows[0].metric not in USAGE:
        columns.sort(key=lambda element: (element.endswith("reverse"), element))
    axes = axes_of(report)
    cells = {(label(row.variant), _counter(row)): _counted(row) for row in rows}
    variants = {label(row.variant): row.variant for row in rows}
    return Table(
        name,
        (*axes, *columns),
        tuple(
            (*names_of(axes, variant), *(cells.get((known, what), DASH) for what in columns))
            for known, variant in variants.items()
        ),
        len(axes),
    )


def _counter(row: Row) -> str:
    """Name of a counter: its element, with the metric if the table has several."""
    element = row.subject.removeprefix("daemon:").replace(":", " ")
    return f"{element} {row.metric}" if row.metric in USAGE else element


def _counted(row: Row) -> str:
    return number(row.summary.median / (1e6 if row.metric == "tx_bytes" else 1))


def provenance(report: Report) -> list[tuple[str, str]]:
    """Where the numbers come from: what is needed to judge and to reproduce them."""
    about, machine = report.manifest, report.manifest.machine
    memory = f"{machine.memory / 2**30:.1f} GiB"
    revision = "not from a checkout"
    if about.revision is not None:
        revision = about.revision.commit + (" with local changes" if about.revision.dirty else "")
    return [
        ("Run", about.run),
        ("Started", f"{about.started:%Y-%m-%d %H:%M:%S %Z}"),
        ("Finished", f"{about.finished:%Y-%m-%d %H:%M:%S %Z}" if about.finished else "not yet"),
        ("Hawser", f"{about.hawser}, revision {revision}"),
        ("Machine", f"{machine.cpu}, {count(machine.cores, 'core')}, {memory}"),
        ("System", f"{machine.distribution}, Linux {machine.kernel}"),
        *_resumed(report),
        ("Seed of the order", str(about.seed)),
        ("Order of trials", ", ".join(_place(report, p.trial) for p in about.order)),
    ]


def _resumed(report: Report) -> list[tuple[str, str]]:
    return [
        (
            "Resumed",
            f"{one.started:%Y-%m-%d %H:%M:%S %Z}, Hawser {one.hawser}"
            + (f" {one.revision.commit[:12]}" if one.revision else "")
            + f", Linux {one.machine.kernel}",
        )
        for one in report.manifest.resumed
    ]


def settings(report: Report) -> list[tuple[str, str]]:
    """Versions of the programs used, and kernel settings during the trials."""
    return [*sorted(report.manifest.tools.items()), *sorted(report.manifest.kernel.items())]


def _place(report: Report, trial: int) -> str:
    place = next(p for p in report.manifest.order if p.trial == trial)
    return f"{label(place.variant)} #{place.repeat}"


def measurements(report: Report) -> list[tuple[str, str]]:
    """Each measurement's name and probe with its parameters, and the variants if they differ."""
    found: dict[str, dict[str, list[str]]] = {}
    for variant in report.workflow.variants:
        series = report.layout.name(variant.labels)
        for name, described in variant.scenario.measurements.items():
            ways = found.setdefault(name, {})
            ways.setdefault(_described(described), []).append(series)
    return [
        (name, text if len(ways) == 1 else f"{text} ({join(list(dict.fromkeys(who)))})")
        for name, ways in found.items()
        for text, who in ways.items()
    ]


def _described(measurement: Measurement) -> str:
    fields = measurement.model_dump(mode="json", exclude_none=True)
    ends = f"{fields.pop('source')} → {fields.pop('target')}"
    said = [f"{fields.pop('probe')} {ends}"]
    if not measurement.start:
        del fields["start"]
    said += (
        key if value is True else f"{key} {value}"
        for key, value in fields.items()
        if value is not False
    )
    return ", ".join(said)


def _table(
    title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], names: int
) -> Table | None:
    rows = tuple(rows)
    return Table(title, columns, rows, names) if rows else None
