"""Whether the statistics of a report keep what they promise, by simulation: `make bench-stats`.

Runs are drawn with a known truth, and judged by the functions that judge real ones.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from scipy.stats import binom

from harness.docs import renew
from harness.machine import ROOT, Machine, describe
from harness.result import Check, Result
from harness.simulation import SHAPES, Run, Shape, Values, simulate
from hawser.engine import schedule
from hawser.spec.units import Ratio
from hawser.spec.workflow import Until
from hawser.stats import (
    Bounds,
    Interval,
    check_bounds,
    check_order,
    corrected,
    decide,
    effect,
    summarise,
)

TIMES = 4000
"""Runs a figure, unless told otherwise."""
SIZES = (3, 5, 10, 30)
LOW, HIGH = 0.93, 0.97
"""Coverage of a 95 % interval that may be shown."""
POWER, WRONG = 0.8, 0.05
CHANCE = 0.001
"""Probability that a promise which is just kept looks broken, because a simulation is finite."""
VARIANTS = 3
QUIET = Shape(lambda random, count: 1 + 0.02 * random.standard_normal(count), 1, 1)
"""Trials with a standard deviation of 2 %."""

ABOUT = """\
Simulated runs with a known truth, judged by the functions that judge real ones. Trials are
normal (5 %), skewed (exponential), bimodal (15 % of trials are 30 % slower) or correlated (AR(1),
0.6 between consecutive trials); variants are interleaved in blocks as in a run. A dash: the report
shows no interval. Limits allow what chance does to so many runs once in a thousand times. Ratios of
bimodal trials may exceed 97 %: a slow trial makes the interval wider than needed."""


@dataclass(frozen=True)
class Figure:
    """A share of simulated runs, and what it may be."""

    part: str
    row: str
    column: str
    value: float | None
    """None if the report shows nothing."""
    least: float = 0
    most: float = 1

    @property
    def ok(self) -> bool:
        """Whether the promise is kept."""
        return self.value is None or self.least <= self.value <= self.most

    def checks(self) -> Iterator[Check]:
        """The same for the result file."""
        for words, limit, used in (
            ("at least", self.least, self.least > 0),
            ("at most", self.most, self.most < 1),
        ):
            if used and self.value is not None:
                name = f"{self.part}: {self.row}, {self.column}, {words}"
                yield Check(name=name, value=self.value, limit=limit, ok=self.ok)


@dataclass(frozen=True)
class Subject:
    """An interval of a report."""

    name: str
    of: Callable[[Run], Interval | None]
    """None where the report would not show one."""
    truth: str
    high: dict[str, float]
    """Shapes of which the interval may contain the truth more often than in 97 %."""


def _median(run: Run) -> Interval | None:
    relative = (run.values / np.median(run.values, axis=0)).ravel()
    in_order = relative[np.argsort(run.place.ravel())]
    if not check_order(in_order.tolist()).independent:
        return None
    return summarise(run.values[:, 0].tolist()).interval


def _ratio(run: Run) -> Interval | None:
    found = effect(*_blocks(run.values[:, :2]))
    return None if found is None else found.interval


def _blocks(values: Values) -> list[dict[int, float]]:
    return [dict(enumerate(column)) for column in values.T.tolist()]


SUBJECTS = (
    Subject("median", _median, "median", {}),
    Subject("ratio", _ratio, "ratio", {"bimodal": 0.99}),
)


def coverage(random: np.random.Generator, times: int) -> Iterator[Figure]:
    """Share of intervals that contain the truth, of those shown.

    An interval of a median must not be shown if trials are correlated: what counts is the share of
    runs that do not show a wrong one.
    """
    for subject, (name, shape), blocks in itertools.product(SUBJECTS, SHAPES.items(), SIZES):
        truth = getattr(shape, subject.truth, 1.0)
        levels = np.ones(VARIANTS)
        found = [subject.of(simulate(random, shape, blocks, levels)) for _ in range(times)]
        held = [one.low <= truth <= one.high for one in found if one is not None]
        withheld = name == "correlated" and subject.truth == "median"
        total = times if withheld else len(held)
        right = sum(held) + (times - len(held) if withheld else 0)
        yield Figure(
            "coverage",
            f"{subject.name}, {name}" + (" (not shown or right)" if withheld else ""),
            f"n = {blocks}",
            right / total if held else None,
            _least(total),
            1 if withheld else _most(total, subject.high.get(name, HIGH)),
        )


def stopping(random: np.random.Generator, times: int) -> Iterator[Figure]:
    """Coverage of the interval of a run that ends once it is precise."""
    for name, precision in (("normal", 0.03), ("skewed", 0.2), ("bimodal", 0.02)):
        until = Until(until=Ratio(precision), metric="goodput", limit=60)
        shape, held = SHAPES[name], 0
        for _ in range(times):
            interval = _stopped(shape.draw(random, until.limit), until)
            held += interval is not None and interval.low <= shape.median <= interval.high
        row = f"repeat until {100 * precision:g} %, {name}"
        yield Figure("coverage", row, "at the end", held / times, _least(times), _most(times, HIGH))


def _stopped(values: Values, until: Until) -> Interval | None:
    def precise(count: int) -> bool:
        return summarise(values[:count].tolist()).precise(until.until)

    done = 0
    while (wanted := schedule.repeats(done, until, precise)) > done:
        done = wanted
    return summarise(values[:done].tolist()).interval


def power(random: np.random.Generator, times: int) -> Iterator[Figure]:
    """Share of runs in which a true ratio is found: blocks differ by 10 %, trials by 2 %."""
    for ratio in (1.05, 1.1):
        levels = np.array([ratio, 1.0])
        runs = (simulate(random, QUIET, 5, levels, between=0.1) for _ in range(times))
        found = float(np.mean([_different(run.values) for run in runs]))
        yield Figure("power", f"true ratio {ratio}", "n = 5", found, POWER)


def _different(values: Values, *, baseline: bool = False) -> bool:
    """Whether any two variants, or the first and any other, are found to be different."""
    columns = _blocks(values)
    pairs = itertools.combinations(columns, 2)
    chosen = ((columns[0], other) for other in columns[1:]) if baseline else pairs
    found = [one for pair in chosen if (one := effect(*pair)) is not None]
    return any(one.clear for one in corrected(found))


def false_alarms(random: np.random.Generator, times: int) -> Iterator[Figure]:
    """Share of runs in which any of several equal variants is found to be different."""
    for variants, blocks, name in itertools.product((2, 5, 10), (3, 5), SHAPES):
        levels = np.ones(variants)
        pairs = against = 0
        for _ in range(times):
            run = simulate(random, SHAPES[name], blocks, levels, between=0.1)
            pairs += _different(run.values)
            against += _different(run.values, baseline=True)
        for asked, count in (("all pairs", pairs), ("baseline", against)):
            row = f"{variants} equal variants, {asked}, n = {blocks}"
            yield Figure("false alarms", row, name, count / times, most=_most(times, WRONG))


def assertions(random: np.random.Generator, times: int) -> Iterator[Figure]:
    """Share of runs with a wrong assertion: one that holds just below its bound, or fails above."""
    for count, far, blocks in itertools.product((1, 5), (1e-9, 0.03), SIZES):
        for name in ("normal", "skewed", "bimodal"):
            shape = SHAPES[name]
            high = Bounds(at_least=shape.median * (1 + far))
            low = Bounds(at_least=shape.median * (1 - far))
            holds = fails = 0
            for _ in range(times):
                trials = simulate(random, shape, blocks, np.ones(count)).values.T.tolist()
                holds += _any(trials, high, "holds")
                fails += _any(trials, low, "fails")
            row = (
                f"{count} bound{'s' * (count > 1)}, {100 * far:.0f} % from the truth, n = {blocks}"
            )
            wrong = max(holds, fails) / times
            yield Figure("wrong assertions", row, name, wrong, most=_most(times, WRONG))


def _any(trials: list[list[float]], bounds: Bounds, verdict: str) -> bool:
    found = decide([check_bounds(values, bounds) for values in trials])
    return any(word == verdict for word, _ in found)


def _least(times: int) -> float:
    """Smallest share that a coverage of 93 % gives in so many runs, but for chance."""
    return float(binom.ppf(CHANCE, times, LOW)) / times if times else 0.0


def _most(times: int, rate: float) -> float:
    """Largest share that a rate gives in so many runs, but for chance."""
    return float(binom.ppf(1 - CHANCE, times, rate)) / times if times else 1.0


PARTS = (coverage, stopping, power, false_alarms, assertions)


def section(figures: Sequence[Figure], machine: Machine, times: int) -> str:
    """The bench's section of docs/benchmarks.md."""
    tables = [_table(list(group)) for _, group in itertools.groupby(figures, _columns(figures))]
    when = f"{machine.date}, revision {machine.revision}, seed {machine.seed}, {times} runs each."
    broken = [f"{f.part}: {f.row}, {f.column}" for f in figures if not f.ok]
    kept = f"Broken: {'; '.join(broken)}." if broken else "All promises are kept."
    repeat = "Repeat: `make bench-stats`; all values and limits: `target/bench/stats.json`."
    return "\n\n".join(["## Statistics of reports", ABOUT, f"{when} {kept}", *tables, repeat])


def _columns(figures: Iterable[Figure]) -> Callable[[Figure], tuple[object, ...]]:
    """Figures of one table: those of a part whose rows have the same columns."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in figures:
        found.setdefault((one.part, one.row), []).append(one.column)
    return lambda one: (one.part, *found[one.part, one.row])


def _table(figures: Sequence[Figure]) -> str:
    columns = list(dict.fromkeys(one.column for one in figures))
    rows: dict[str, dict[str, str]] = {}
    for one in figures:
        rows.setdefault(one.row, {})[one.column] = (
            "\N{EN DASH}" if one.value is None else f"{one.value:.3f}"
        )
    lines = [f"| {figures[0].part} | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [f"| {row} | {' | '.join(cells[c] for c in columns)} |" for row, cells in rows.items()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Simulate; exit code 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, help=f"runs a figure (default {TIMES})")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (default 1)")
    chosen = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    random, began = np.random.default_rng(chosen.seed), time.monotonic()
    figures = []
    for part in PARTS:
        for one in part(random, chosen.times):
            figures.append(one)
            mark = "[green]ok[/green]" if one.ok else "[red]FAILED[/red]"
            value = "not shown" if one.value is None else f"{one.value:.3f}"
            limits = f"({one.least:.3f} to {one.most:.3f})"
            console.print(f"{mark} {one.part}: {one.row}, {one.column}: {value} {limits}")
    machine = describe({}, chosen.seed)
    checks = [check for one in figures for check in one.checks()]
    full = chosen.times >= TIMES
    name = "stats" if full else "stats-partial"
    result = Result(bench="stats", machine=machine, rows=[], checks=checks)
    result.write(ROOT / "target" / "bench" / f"{name}.json")
    if full:
        renew(ROOT / "docs" / "benchmarks.md", "stats", section(figures, machine, chosen.times))
    console.print(f"{time.monotonic() - began:.0f} s")
    return 0 if all(one.ok for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
