"""The main result of a run, in sentences computed from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from hawser.report.judge import ranking
from hawser.report.model import Comparison, Layout, Row
from hawser.report.words import count, join, number, percent, term, times
from hawser.store import label


def finding(
    plan: Layout, about: Sequence[Row], comparisons: Sequence[Comparison]
) -> tuple[str, ...]:
    """Say what came out.

    Args:
        plan: how variants are laid out.
        about: the headline rows.
        comparisons: leaders against others, the nearest first in each group.
    """
    if not about:
        return ("No valid run: there is nothing to report.",)
    say = _groups if len(plan.groups) > 1 else _one_group
    return (*say(plan, about, comparisons), *_bound(plan, about), *_published(about))


def _one_group(
    plan: Layout, about: Sequence[Row], comparisons: Sequence[Comparison]
) -> tuple[str, ...]:
    lead = ranking(about)[0]
    words = term(lead.metric)
    runs = f"median of {count(lead.summary.n, 'run')}"
    who = _name(plan, lead)
    first = f"{who} {words.most} {_value(lead)} ({runs})"
    if not comparisons:
        return (f"{first}.",)
    versus = (comparisons[0], *comparisons[1:][-1:])
    parts = [f"{times(c.ratio)} what {_series(plan, c.other)} {words.did}" for c in versus]
    unclear = [_unclear(plan, comparisons[0])] if comparisons[0].ratio.close else []
    return (f"{first}: {join(parts)}.", *unclear)


def _unclear(plan: Layout, close: Comparison) -> str:
    return (
        f"{_series(plan, close.leader)} and {_series(plan, close.other)}"
        " cannot be told apart by these runs."
    )


def _groups(
    plan: Layout, about: Sequence[Row], comparisons: Sequence[Comparison]
) -> tuple[str, ...]:
    leaders = {
        group: ranking(rows)[0]
        for group in plan.groups
        if (rows := [row for row in about if plan.group(row.variant) == group])
    }
    unclear = _unclear_groups(plan, comparisons)
    return (_leaders(plan, leaders), *unclear, *_widest(plan, comparisons))


def _leaders(plan: Layout, leaders: dict[str, Row]) -> str:
    """Who leads where: variants that lead in several groups are named once."""
    by_name: dict[str, list[str]] = {}
    for group, row in leaders.items():
        by_name.setdefault(_name(plan, row), []).append(group)
    words = term(next(iter(leaders.values())).metric)
    parts = []
    for name, groups in by_name.items():
        where = f"in all {len(groups)} cases" if len(by_name) == 1 else f"at {join(groups)}"
        medians = [leaders[group].summary.median for group in groups]
        low, high = number(min(medians)), number(max(medians))
        span = low if low == high else f"{low} to {high}"
        unit = leaders[groups[0]].unit
        rank = "most" if words.better == "higher" else "least"
        parts.append(f"{name} gave the {rank} {where} ({span} {unit})")
    return f"{words.title}: {join(parts)}."


def _widest(plan: Layout, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """The largest difference that is sure."""
    sure = [c for c in comparisons if c.ratio.clear]
    if not sure:
        known = any(c.ratio.interval for c in comparisons)
        return ("In no case can the variants be told apart by these runs.",) if known else ()
    most = max(sure, key=_gap)
    text = (
        f"The widest gap is at {most.group}: {_series(plan, most.leader)} gave"
        f" {times(most.ratio)} what {_series(plan, most.other)} gave."
    )
    return (text,)


def _gap(comparison: Comparison) -> float:
    """How far apart two variants are, whichever is the greater."""
    value = comparison.ratio.value
    return max(value, 1 / value) if value > 0 else float("inf")


def _unclear_groups(plan: Layout, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Where the first two are too close to tell apart."""
    nearest = {c.group: c for c in reversed(comparisons)}
    close = [g for g in plan.groups if g in nearest and nearest[g].ratio.close]
    if not close or len(close) == len(nearest) == len(comparisons):
        return ()
    return (f"At {join(close)} the first two cannot be told apart by these runs.",)


def _bound(plan: Layout, about: Sequence[Row]) -> tuple[str, ...]:
    """How near the best variant comes to what the network could carry."""
    bounded = [row for row in about if row.bounds is not None]
    if not bounded or bounded[0].metric != "goodput":
        return ()
    shares = []
    for group in plan.groups:
        rows = ranking([row for row in bounded if plan.group(row.variant) == group])
        shares += [r.summary.median / r.bounds.together for r in rows[:1] if r.bounds is not None]
    if len(shares) == 1:
        together = bounded[0].bounds.together if bounded[0].bounds is not None else None
        text = (
            f"That is {percent(shares[0])} of the {number(together)} {bounded[0].unit} which all"
            " paths together let pass on the wire."
        )
        return (text,)
    low, high = percent(min(shares)), percent(max(shares))
    span = low if low == high else f"{low} to {high}"
    return (f"The best reach {span} of what all paths together let pass on the wire.",)


def _published(about: Sequence[Row]) -> tuple[str, ...]:
    with_reference = [row for row in about if row.reference is not None]
    if not with_reference:
        return ()
    better = term(about[0].metric).better == "higher"
    reached = sum(
        (r.summary.median >= r.reference.value) == better
        for r in with_reference
        if r.reference is not None
    )
    text = (
        f"Of {count(len(with_reference), 'published value')} {reached}"
        f" {'is' if reached == 1 else 'are'} reached here; they come from other hardware,"
        " so compare shapes and ratios."
    )
    return (text,)


def _value(row: Row) -> str:
    return f"{number(row.summary.median)} {row.unit}"


def _name(plan: Layout, row: Row) -> str:
    return plan.name(row.variant) if plan.axis else label(row.variant)


def _series(plan: Layout, variant: dict[str, str]) -> str:
    return plan.name(variant) if plan.axis else label(variant)
