"""Whether the statistics of a report keep what they promise, by simulation: `make bench-stats`.

Runs are drawn with a known truth, and judged by the very functions that judge real ones.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from scipy.stats import binom

from harness.machine import ROOT, describe
from harness.result import Check, Result, at_least, at_most
from harness.simulation import SHAPES, Run, Shape, Values, simulate
from hawser.stats import (
    Bounds,
    Interval,
    check_order,
    corrected,
    decide,
    effect,
    evidence,
    summarise,
)

SIZES = (3, 5, 10, 30)
LOW, HIGH = 0.93, 0.97
"""Coverage of a 95 % interval that may be shown."""
POWER, WRONG = 0.8, 0.05
CHANCE = 0.001
"""How often a promise that is just kept may look broken, since simulations are finite."""
VARIANTS = 3
QUIET = Shape(lambda random, count: 1 + 0.02 * random.standard_normal(count), 1, 1)
"""Trials that scatter by 2 %."""


@dataclass(frozen=True)
class Subject:
    """An interval of a report."""

    name: str
    of: Callable[[Run], Interval | None]
    """None where the report would not show one."""
    truth: str
    high: dict[str, float]
    """Shapes of which the interval may hold more often than 97 %, and how often at most."""


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
    Subject("ratio in blocks", _ratio, "ratio", {"bimodal": 0.99}),
)
"""A slow mode widens the interval of a ratio: it then holds more than it promises."""


def coverage(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often each interval holds the truth, of the times it is shown.

    Where trials are related the interval of a median must not be shown: what counts is how many
    runs do not show one that is wrong.
    """
    for subject, (name, shape), blocks in itertools.product(SUBJECTS, SHAPES.items(), SIZES):
        truth = getattr(shape, subject.truth, 1.0)
        levels = np.ones(VARIANTS)
        found = [subject.of(simulate(random, shape, blocks, levels)) for _ in range(times)]
        held = [one.low <= truth <= one.high for one in found if one is not None]
        least = _least(len(held))
        what = f"{subject.name}, {name}, n = {blocks}"
        if not held:
            continue
        if name == "correlated" and subject.truth == "median":
            wrong = 1 - (len(held) - sum(held)) / times
            yield at_least(f"not wrong: {what}, at least", wrong, _least(times))
            continue
        yield at_least(f"coverage: {what}, at least", sum(held) / len(held), least)
        high = subject.high.get(name, HIGH)
        most = float(binom.ppf(1 - CHANCE, len(held), high)) / len(held)
        yield at_most(f"coverage: {what}, at most", sum(held) / len(held), most)


def _least(times: int) -> float:
    """Smallest share that a coverage of 93 % gives in so many runs, but for one time in 1000."""
    return float(binom.ppf(CHANCE, times, LOW)) / times if times else 0.0


def _most(times: int) -> float:
    """Largest share that a rate of 5 % gives in so many runs, but for one time in 1000."""
    return float(binom.ppf(1 - CHANCE, times, WRONG)) / times


def power(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often a true difference of 5 % is found in five blocks that differ by 10 %."""
    levels = np.array([1.05, 1.0])
    runs = (simulate(random, QUIET, 5, levels, between=0.1) for _ in range(times))
    found = float(np.mean([_told_apart(run.values) for run in runs]))
    yield at_least("power: ratio 1.05 at n = 5, at least", found, POWER)


def _told_apart(values: Values, baseline: bool = False) -> bool:
    """Whether any two variants, or any and the first one, are told apart."""
    columns = _blocks(values)
    pairs = itertools.combinations(columns, 2)
    chosen = ((columns[0], other) for other in columns[1:]) if baseline else pairs
    found = [one for pair in chosen if (one := effect(*pair)) is not None]
    return any(one.clear for one in corrected(found))


def false_alarms(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often any of several equal variants is told apart from another."""
    for variants, blocks, name in itertools.product((2, 5, 10), (3, 5), SHAPES):
        levels = np.ones(variants)
        alarms, against = 0, 0
        for _ in range(times):
            run = simulate(random, SHAPES[name], blocks, levels, between=0.1)
            alarms += _told_apart(run.values)
            against += _told_apart(run.values, baseline=True)
        what = f"{variants} equal variants, {name}, n = {blocks}, at most"
        yield at_most(f"false alarms: {what}", alarms / times, _most(times))
        yield at_most(f"false alarms against a baseline: {what}", against / times, _most(times))


def assertions(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often any assertion of a file is wrong, its bound where the error is likeliest.

    A bound just above the median is said to hold, or one just below to fail; or 3 % from it.
    """
    for count, blocks, name in itertools.product((1, 5), SIZES, ("normal", "skewed", "bimodal")):
        shape = SHAPES[name]
        for far in (1e-9, 0.03):
            high = Bounds(at_least=shape.median * (1 + far))
            low = Bounds(at_least=shape.median * (1 - far))
            wrong = [0, 0]
            for _ in range(times):
                values = simulate(random, shape, blocks, np.ones(count)).values.T.tolist()
                wrong[0] += _says(values, high, "holds")
                wrong[1] += _says(values, low, "fails")
            what = f"{count} bounds {100 * far:.0f} % from {name} trials, n = {blocks}, at most"
            yield at_most(f"wrong assertions: {what}", max(wrong) / times, _most(times))


def _says(trials: list[list[float]], bounds: Bounds, verdict: str) -> bool:
    found = decide([evidence(values, bounds) for values in trials])
    return any(word == verdict for word, _ in found)


def main(arguments: list[str] | None = None) -> int:
    """Simulate; exit code 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=4000, help="runs a figure (default 4000)")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    random, checks, began = np.random.default_rng(chosen.seed), [], time.monotonic()
    for part in (coverage, power, false_alarms, assertions):
        for check in part(random, chosen.times):
            checks.append(check)
            mark = "[green]ok[/green]" if check.ok else "[red]FAILED[/red]"
            console.print(f"{mark} {check.name}: {check.value:.3f} ({check.limit:g})")
    result = Result(bench="stats", machine=describe({}, chosen.seed), rows=[], checks=checks)
    result.write(ROOT / "target" / "bench" / "stats.json")
    console.print(f"{time.monotonic() - began:.0f} s")
    return 0 if all(check.ok for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
