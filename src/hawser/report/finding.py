"""The main result of a run in sentences, computed from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from hawser.report.judge import ranking
from hawser.report.model import Comparison, Layout, Row
from hawser.report.words import Term, count, join, middle, number, percent, term, times
from hawser.spec.workflow import Labels
from hawser.store import label

_MOST = 4
"""Comparisons given in sentences; the table has all."""


def finding(
    layout: Layout,
    about: Sequence[Row],
    comparisons: Sequence[Comparison],
    missing: Sequence[Labels] = (),
) -> tuple[str, ...]:
    """Give the main result, a sentence an element.

    Args:
        layout: how variants are laid out.
        about: the headline rows.
        comparisons: the best variant of each group compared with the others, closest first; or
            every variant with the baseline.
        missing: variants without data.
    """
    if not about:
        return ("There is no valid run, so there is nothing to report.",)
    result = _groups if len(layout.groups) > 1 else _one_group
    names = join([label(variant) for variant in missing])
    return (
        *result(layout, about, comparisons),
        *([f"There are no results for {names}."] if missing else []),
        *_bound(layout, about),
        *_published(about),
    )


def _one_group(
    layout: Layout, about: Sequence[Row], comparisons: Sequence[Comparison]
) -> tuple[str, ...]:
    lead = ranking(about)[0]
    metric = term(lead.metric)
    runs = f"median of {count(lead.summary.n, 'run')}"
    if not comparisons:
        return (f"{metric.title}: {_value(lead)} ({runs}).",)
    first = f"{_name(layout, lead)} had the {metric.best} {metric.name}, {_value(lead)} ({runs})"
    own = [c for c in comparisons if c.variant == lead.variant]
    others = [c for c in comparisons if c.variant != lead.variant]
    parts = [_compared(layout, metric, c) for c in (*own[:1], *own[1:][-1:])]
    rest = [f"{_series(layout, c)}: {_compared(layout, metric, c)}" for c in others[:_MOST]]
    close = [c for c in (comparisons if others else own[:1]) if c.effect.close]
    return (
        f"{first}: {join(parts)}." if parts else f"{first}.",
        *([f"{'; '.join(rest)}."] if rest else []),
        *(_unclear(layout, c) for c in close[:_MOST]),
    )


def _compared(layout: Layout, metric: Term, one: Comparison) -> str:
    other = layout.series_of(one.against, beside=one.variant)
    if one.effect.kind == "ratio":
        return f"{times(one.effect)} {metric.compared(other)}"
    return f"{times(one.effect)} compared with {other}"


def _unclear(layout: Layout, close: Comparison) -> str:
    return (
        f"These runs show no difference between {_series(layout, close)}"
        f" and {layout.series_of(close.against, beside=close.variant)}."
    )


def _groups(
    layout: Layout, about: Sequence[Row], comparisons: Sequence[Comparison]
) -> tuple[str, ...]:
    leaders = {
        group: ranking(rows)[0]
        for group in layout.groups
        if (rows := [row for row in about if layout.group(row.variant) == group])
    }
    metric = term(about[0].metric)
    unclear = _unclear_groups(layout, comparisons)
    return (_leaders(layout, leaders), *unclear, *_widest(layout, metric, comparisons))


def _leaders(layout: Layout, leaders: dict[str, Row]) -> str:
    """Say which variant is best in which groups."""
    by_name: dict[str, list[str]] = {}
    for group, row in leaders.items():
        by_name.setdefault(_name(layout, row), []).append(group)
    metric = term(next(iter(leaders.values())).metric)
    parts = []
    for name, groups in by_name.items():
        where = f"in all {len(groups)} cases" if len(by_name) == 1 else f"for {join(groups)}"
        medians = [leaders[group].summary.median for group in groups]
        low, high = number(min(medians)), number(max(medians))
        span = low if low == high else f"{low} to {high}"
        unit = leaders[groups[0]].unit
        parts.append(f"{name} had the {metric.best} {where} ({span} {unit})")
    return f"{metric.title}: {join(parts)}."


def _widest(layout: Layout, metric: Term, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Name the largest of the differences that are certain."""
    sure = [c for c in comparisons if c.effect.clear and c.effect.kind == "ratio"]
    if not sure:
        known = any(c.effect.interval for c in comparisons) and not any(
            c.effect.clear for c in comparisons
        )
        return ("These runs show no difference between the variants in any case.",) if known else ()
    most = max(sure, key=_gap)
    text = (
        f"The difference is largest for {most.group}: {_series(layout, most)} had"
        f" {_compared(layout, metric, most)}."
    )
    return (text,)


def _gap(comparison: Comparison) -> float:
    """Ratio of the greater of two variants to the smaller."""
    value = comparison.effect.value
    return max(value, 1 / value) if value > 0 else float("inf")


def _unclear_groups(layout: Layout, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Name the groups in which the two best variants do not differ."""
    nearest = {c.group: c for c in reversed(comparisons)}
    if len({label(c.variant) for c in comparisons}) > len(nearest):
        return ()  # compared with a baseline
    close = [g for g in layout.groups if g in nearest and nearest[g].effect.close]
    if not close or len(close) == len(nearest) == len(comparisons):
        return ()
    return (f"For {join(close)} these runs show no difference between the two best variants.",)


def _bound(layout: Layout, about: Sequence[Row]) -> tuple[str, ...]:
    """Give the best variant's share of what the network can carry."""
    bounded = [row for row in about if row.bounds is not None]
    if not bounded or bounded[0].metric != "goodput":
        return ()
    best = []
    for group in layout.groups:
        rows = ranking([row for row in bounded if layout.group(row.variant) == group])
        best += [(r.summary.median, r.bounds.together) for r in rows[:1] if r.bounds is not None]
    shares = [median / together for median, together in best]
    if len(shares) == 1:
        text = (
            f"That is {percent(shares[0])} of the {number(best[0][1])} {bounded[0].unit} that all"
            " paths together can carry on the wire."
        )
        return (text,)
    low, high = percent(min(shares)), percent(max(shares))
    span = low if low == high else f"{low} to {high}"
    return (f"The best variants reach {span} of what all paths together can carry on the wire.",)


def _published(about: Sequence[Row]) -> tuple[str, ...]:
    with_reference = [row for row in about if row.reference is not None]
    if not with_reference:
        return ()
    sign = 1 if term(about[0].metric).better == "higher" else -1
    reached = sum(
        sign * r.summary.median >= sign * r.reference.value
        for r in with_reference
        if r.reference is not None
    )
    text = (
        f"{reached} of {count(len(with_reference), 'published value')}"
        f" {'is' if reached == 1 else 'are'} reached here. Published values come from other"
        " hardware, so compare shapes and ratios rather than absolute values."
    )
    return (text,)


def _value(row: Row) -> str:
    return f"{middle(row.summary)} {row.unit}"


def _name(layout: Layout, row: Row) -> str:
    return layout.name(row.variant) if layout.axis else label(row.variant)


def _series(layout: Layout, one: Comparison) -> str:
    return layout.series_of(one.variant)
