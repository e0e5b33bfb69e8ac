"""Decides a workflow's assertions: whether they hold for the variants, not only these trials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import StatisticsError, correlation, geometric_mean

from hawser.report.collect import covers
from hawser.report.model import Checked, Outcome, Row
from hawser.report.words import count, number
from hawser.spec.metric import ATTACKS, names
from hawser.spec.workflow import LINE_FROM, Assertion, Labels, Undecided, Workflow
from hawser.stats import Bounds, BoundsCheck, Verdict, check_bounds, decide
from hawser.stats.verdict import FEWEST, MEAN_FROM
from hawser.store import label

_OBSERVED = ("min", "max", "sd")
"""Statistics of the trials that were made: they need no test and no correction."""
_SPREAD_FROM = 2
"""Trials that have a standard deviation."""


@dataclass(frozen=True)
class _Question:
    """An assertion about one row, or about all rows of an axis."""

    wanted: Assertion
    row: Row
    value: float | None
    """The statistic, from these trials; None if data is missing."""
    blocks: Mapping[int, float]
    """Value of each repeat; with `relative_to` a ratio. Infinite if censored."""
    reason: str = ""
    """Why it cannot be decided."""

    @property
    def observed(self) -> bool:
        """Whether it is about the trials that were made."""
        return self.wanted.statistic in _OBSERVED or self.wanted.linear_in is not None

    @property
    def n(self) -> int:
        """Trials, or repeats with both variants."""
        return len(self.row.runs) if self.observed else len(self.blocks)

    @property
    def spreadless(self) -> bool:
        """Whether it is about the spread of too few trials to have one."""
        return self.wanted.statistic == "sd" and len(self.row.runs) < _SPREAD_FROM

    @property
    def bounds(self) -> Bounds:
        return Bounds(at_least=self.wanted.at_least, at_most=self.wanted.at_most)


def outcomes(workflow: Workflow, made: Sequence[Row]) -> tuple[Outcome, ...]:
    """Decide all assertions of a workflow together."""
    asked = [list(_questions(wanted, workflow, made)) for wanted in workflow.assertions]
    every = [question for questions in asked for question in questions]
    found = [_check(question) for question in every]
    decided = decide(found)
    checked = iter(
        [
            _checked(question, one, verdict, p, workflow.undecided)
            for question, one, (verdict, p) in zip(every, found, decided, strict=True)
        ]
    )
    return tuple(
        Outcome(
            text=_text(wanted, questions),
            checked=tuple(itertools.islice(checked, len(questions))),
        )
        for wanted, questions in zip(workflow.assertions, asked, strict=True)
    )


def _text(wanted: Assertion, questions: Sequence[_Question]) -> str:
    unit = questions[0].row.unit if questions else ""
    if wanted.relative_to:
        unit = f"times {label(wanted.relative_to)}"
    limits = [
        f"{words} {number(limit)}"
        for words, limit in (("at least", wanted.at_least), ("at most", wanted.at_most))
        if limit is not None
    ]
    who = label(wanted.variant) if wanted.variant else "every variant"
    if wanted.across:
        who += f", geometric mean over {wanted.across}"
    what = f"{wanted.statistic} {wanted.metric}"
    if wanted.linear_in:
        what, unit = f"R^2 of {what} over {wanted.linear_in}", ""
    return f"{what} of {who}: {' and '.join(limits)} {unit}".strip()


def _questions(wanted: Assertion, workflow: Workflow, made: Sequence[Row]) -> Iterator[_Question]:
    concerned = [
        row
        for row in made
        if row.metric in names(wanted.metric)
        and wanted.measurement in (None, row.measurement)
        and covers(wanted.variant, row.variant)
        and not (row.metric in ATTACKS and row.subject)  # it is about all attacks together
    ]
    single = [_single(wanted, row, made) for row in concerned]
    axis = wanted.across or wanted.linear_in
    if axis is None:
        yield from single
        return
    planned = [v.labels for v in workflow.variants if covers(wanted.variant, v.labels)]
    groups: dict[tuple[object, ...], list[_Question]] = {}
    for question in single:
        row = question.row
        rest = frozenset(_without(row.variant, axis).items())
        groups.setdefault((row.measurement, row.direction, row.subject, rest), []).append(question)
    for questions in groups.values():
        if wanted.linear_in:
            yield _line(wanted, questions, axis)
        else:
            yield _together(wanted, questions, planned)


def _without(variant: Labels, axis: str) -> Labels:
    return {name: value for name, value in variant.items() if name != axis}


def _single(wanted: Assertion, row: Row, made: Sequence[Row]) -> _Question:
    if not wanted.relative_to:
        found = _statistic(row, wanted.statistic)
        question = _Question(wanted, row, found, row.blocks)
        lacking = found is None and not question.spreadless
        return replace(question, reason="censored trials have no mean" if lacking else "")
    other = _counterpart(wanted, row, made)
    if other is None:
        return _Question(wanted, row, None, {}, f"{label(wanted.relative_to)} was not measured")
    multiples, reason = _multiples(row.blocks, other.blocks)
    value: float | None
    if multiples and wanted.statistic not in _OBSERVED:
        value = geometric_mean(multiples.values())
    else:
        value = _ratio(_statistic(row, wanted.statistic), _statistic(other, wanted.statistic))
    return _Question(wanted, row, value, multiples, reason)


def _counterpart(wanted: Assertion, row: Row, made: Sequence[Row]) -> Row | None:
    """The same of the variant that differs only by the labels of `relative_to`."""
    variant = row.variant | wanted.relative_to
    same = ("measurement", "metric", "unit", "direction", "subject")
    for other in made:
        if other.variant == variant and all(getattr(other, f) == getattr(row, f) for f in same):
            return other
    return None


def _multiples(
    one: Mapping[int, float], other: Mapping[int, float]
) -> tuple[dict[int, float], str]:
    """By block: how many times the other's value; without any, why there are none."""
    both = sorted(one.keys() & other.keys())
    if not both:
        return {}, "no repeat has a valid trial of both variants"
    if not all(0 < value < math.inf for at in both for value in (one[at], other[at])):
        return {}, "some values are zero, negative or censored, which have no ratio"
    return {at: one[at] / other[at] for at in both}, ""


def _together(
    wanted: Assertion, questions: Sequence[_Question], planned: Sequence[Labels]
) -> _Question:
    """The geometric mean over all values of an axis, block by block."""
    axis = wanted.across or ""
    first = questions[0].row
    rest = _without(first.variant, axis)
    row = first.model_copy(update={"variant": rest})
    values = {v[axis] for v in planned if axis in v and _without(v, axis) == rest}
    lacking = sorted(values - {q.row.variant[axis] for q in questions if q.value is not None})
    if lacking:
        return _Question(wanted, row, None, {}, f"no data for {axis} {', '.join(lacking)}")
    found = [q.value for q in questions if q.value is not None]
    unknown = [
        q.row.variant[axis] for q in questions if q.value is not None and not 0 < q.value < math.inf
    ]
    if unknown:
        return _Question(wanted, row, None, {}, f"no ratio for {axis} {', '.join(unknown)}")
    repeats = set.intersection(*(set(q.blocks) for q in questions))
    means = {at: geometric_mean([q.blocks[at] for q in questions]) for at in sorted(repeats)}
    reason = next((q.reason for q in questions if q.reason), "")
    return _Question(wanted, row, geometric_mean(found), means, reason)


def _line(wanted: Assertion, questions: Sequence[_Question], axis: str) -> _Question:
    """Coefficient of determination of the line through the values of an axis."""
    first = questions[0].row
    fewest = min((q.row for q in questions), key=lambda row: len(row.runs))
    row = fewest.model_copy(update={"variant": _without(first.variant, axis)})
    points = [
        (float(q.row.variant[axis]), q.value)
        for q in questions
        if q.value is not None and math.isfinite(q.value)
    ]
    if len(points) < LINE_FROM:
        return _Question(wanted, row, None, {}, f"{len(points)} points, a line needs {LINE_FROM}")
    try:
        value = correlation(*zip(*points, strict=True)) ** 2
    except StatisticsError:
        return _Question(wanted, row, None, {}, "all values are equal")
    return _Question(wanted, row, value, {})


def _statistic(row: Row, name: str) -> float | None:
    """The statistic of a row; infinite if the median is censored."""
    if name == "sd":
        return row.summary.sd
    if name in _OBSERVED:
        ends = [run.extremes for run in row.runs]
        return min(low for low, _ in ends) if name == "min" else max(high for _, high in ends)
    if name == "mean":
        return row.summary.mean
    return math.inf if row.summary.open else row.summary.median


def _ratio(value: float | None, other: float | None) -> float | None:
    """None if there is no value to divide by."""
    return value / other if value is not None and other else None


def _fewest(wanted: Assertion) -> int:
    """Trials that a decision needs; a test needs two to know the scatter."""
    if wanted.statistic in _OBSERVED:
        return wanted.min_n or (_SPREAD_FROM if wanted.statistic == "sd" else 1)
    if wanted.min_n is not None:
        return max(2, wanted.min_n)
    return MEAN_FROM if wanted.statistic == "mean" else FEWEST


def _check(question: _Question) -> BoundsCheck | None:
    """Test the bounds; None if no test is needed, or there are too few trials."""
    wanted, n = question.wanted, question.n
    if question.value is None or question.observed or n < _fewest(wanted):
        return None
    values = list(question.blocks.values())
    return check_bounds(values, question.bounds, mean=wanted.statistic == "mean")


def _checked(
    question: _Question,
    found: BoundsCheck | None,
    verdict: Verdict,
    p: float | None,
    undecided: Undecided,
) -> Checked:
    row, value = question.row, question.value
    met = question.spreadless or (value is not None and question.bounds.met(value))
    n, fewest = question.n, _fewest(question.wanted)
    reason = question.reason
    if value is not None and question.observed and n >= fewest:
        verdict = "holds" if met else "fails"
    elif n < fewest and not reason:
        reason = f"{count(n, 'trial')}, needs {fewest}"
    ok = {"holds": True, "fails": False, "undecided": met if undecided == "estimate" else
          undecided == "pass"}[verdict]  # fmt: skip
    return Checked(
        variant=row.variant,
        measurement=row.measurement,
        value=value if value is None or math.isfinite(value) else None,
        low=found and found.low,
        high=found and found.high,
        n=n,
        p=p,
        verdict=verdict,
        reason=reason if verdict == "undecided" else "",
        ok=ok,
    )
