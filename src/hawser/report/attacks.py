"""What of attacks got through, where a workflow compares captures before and behind a chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hawser.report.model import Report, Row
from hawser.report.tables import Table, axes_of, names_of
from hawser.report.words import DASH, number
from hawser.spec.metric import ATTACKS
from hawser.spec.workflow import Labels

_OF = "attack:"
_SHORT = "flows:short"
_MATRIX = {
    "malicious_blocked": "malicious blocked",
    "malicious_passed": "malicious passed",
    "benign_blocked": "benign blocked",
    "benign_passed": "benign passed",
    "accuracy": "right, %",
    "benign_flows_blocked": "of benign flows, %",
    "malicious_flows_blocked": "of malicious flows, %",
    "malicious_volume_blocked": "malicious volume blocked, %",
}
_BY_ATTACK = {
    "malicious_blocked": "flows blocked",
    "malicious_passed": "flows passed",
    "malicious_volume_blocked": "volume blocked, %",
    "late_volume_blocked": "after 3 s, %",
    "time_to_block": "time to block, ms",
    "time_to_block_p99": "99th percentile, ms",
}


def tables(report: Report) -> list[Table]:
    """Both tables; none where nothing was compared."""
    return [one for one in (matrix(report), by_attack(report)) if one is not None]


def matrix(report: Report) -> Table | None:
    """Confusion matrix of each variant: medians over its runs, and what was published."""
    found = list(_by_subject(report))
    if not found:
        return None
    axes = axes_of(report)
    rows = [(*names_of(axes, variant), *_cells(values, _MATRIX)) for variant, _, values in found]
    published = dict.fromkeys(
        row.reference.source for _, _, v in found for row in v.values() if row.reference
    )
    for source in published:
        cells = (_published(found, metric, source) for metric in _MATRIX)
        rows.append((f"published ({source})", *[""] * (len(axes) - 1), *cells))
    caption = "Confusion matrix: flows blocked and passed"
    return Table(caption, (*axes, *_MATRIX.values()), tuple(rows), len(axes))


def by_attack(report: Report) -> Table | None:
    """What each attack got through, and malicious flows shorter than 2 s; medians over runs."""
    axes = axes_of(report)
    rows = [
        (*names_of(axes, variant), subject.removeprefix(_OF), *_cells(values, _BY_ATTACK))
        for variant, subject, values in _by_subject(report, _OF, _SHORT)
    ]
    if not rows:
        return None
    named = [(*row[: len(axes)], _name(row[len(axes)]), *row[len(axes) + 1 :]) for row in rows]
    columns = (*axes, "attack", *_BY_ATTACK.values())
    return Table("What was blocked of each attack", columns, tuple(named), len(axes) + 1)


def _name(subject: str) -> str:
    return "flows under 2 s" if subject == _SHORT else subject


def _by_subject(report: Report, *begins: str) -> Iterator[tuple[Labels, str, dict[str, Row]]]:
    """Give the rows of each variant and subject by metric, if captures were compared.

    Without `begins`, of all flows, else of subjects that begin so.
    """
    found: dict[tuple[tuple[tuple[str, str], ...], str], dict[str, Row]] = {}
    for row in report.rows:
        wanted = row.subject.startswith(begins) if begins else not row.subject
        if row.metric in ATTACKS and wanted:
            found.setdefault((tuple(row.variant.items()), row.subject), {})[row.metric] = row
    for (variant, subject), values in found.items():
        if "malicious_passed" in values:
            yield dict(variant), subject, values


def _cells(values: dict[str, Row], metrics: dict[str, str]) -> Iterator[str]:
    for metric in metrics:
        yield number(values[metric].summary.median) if metric in values else DASH


def _published(
    found: Sequence[tuple[Labels, str, dict[str, Row]]], metric: str, source: str
) -> str:
    references = (values[metric].reference for _, _, values in found if metric in values)
    shown = (r for r in references if r is not None and r.source == source)
    one = next(shown, None)
    return "" if one is None else number(one.value)
