"""Whether a run is worse than the earlier one that it was interleaved with."""

from __future__ import annotations

from collections.abc import Sequence

from hawser.report.collect import label_key
from hawser.report.model import Regression, Row
from hawser.report.words import TERMS, term
from hawser.spec.workflow import Labels
from hawser.stats import corrected, effect, ordered


def regressions(rows: Sequence[Row], baseline: Labels) -> tuple[Regression, ...]:
    """Compare every metric that has a better direction with the baseline's.

    Args:
        rows: of measurements.
        baseline: labels of the earlier variants.

    Returns:
        Effects within repeats, corrected for their number (Holm), in the order of the rows. Where
        a trial is censored, the values of each repeat are put in order.
    """
    found = []
    others = {(label_key(row.variant), _what(row)): row for row in rows}
    for row in rows:
        other = others.get((label_key(row.variant | baseline), _what(row)))
        if other is None or other is row or row.metric not in TERMS:
            continue
        censored = row.summary.censored or other.summary.censored
        known = (ordered if censored else effect)(row.blocks, other.blocks)
        if known is not None:
            found.append((row, known))
    effects = corrected([known for _, known in found])
    return tuple(
        Regression(
            variant=row.variant,
            measurement=row.measurement,
            metric=row.metric,
            unit=row.unit,
            direction=row.direction,
            subject=row.subject,
            effect=known,
            worse=known.clear and known.larger != (term(row.metric).better == "higher"),
        )
        for (row, _), known in zip(found, effects, strict=True)
    )


def _what(row: Row) -> tuple[str, str, str, str, str]:
    return row.measurement, row.metric, row.unit, row.direction, row.subject
