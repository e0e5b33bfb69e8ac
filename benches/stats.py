"""Whether the statistics of a report keep what they promise, by simulation: `make bench-stats`.

Runs are drawn with a known truth, and judged by the very functions that judge real ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from harness.docs import renew
from harness.machine import ROOT, describe
from harness.result import Check, Result, at_least, at_most
from harness.simulation import SHAPES, Run, Values, simulate
from harness.table import markdown_checks
from hawser.stats import Interval, ratio_of_medians
from hawser.stats.summary import bca_interval, median_interval, t_interval

SIZES = (3, 5, 10, 30)
LOW, HIGH = 0.93, 0.97
"""Coverage of a 95 % interval that may be shown."""
POWER, FALSE = 0.8, 0.05
VARIANTS = 3


@dataclass(frozen=True)
class Subject:
    """An interval of a report."""

    name: str
    of: Callable[[Run], Interval | None]
    """None where the report would not show one."""
    truth: str


def _pair(run: Run) -> Interval | None:
    ratio = ratio_of_medians(run.values[:, 0].tolist(), run.values[:, 1].tolist())
    return None if ratio is None else ratio.interval


SUBJECTS = (
    Subject("median", lambda run: median_interval(run.values[:, 0])[0], "median"),
    Subject("mean, t", lambda run: t_interval(run.values[:, 0]), "mean"),
    Subject("mean, BCa", lambda run: bca_interval(run.values[:, 0], 1), "mean"),
    Subject("ratio", _pair, "ratio"),
)


def coverage(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often each interval holds the truth, of the times it is shown."""
    levels = np.ones(VARIANTS)
    for subject in SUBJECTS:
        for name, shape in SHAPES.items():
            truth = getattr(shape, subject.truth, 1.0)
            for blocks in SIZES:
                runs = (simulate(random, shape, blocks, levels) for _ in range(times))
                shown = [found for run in runs if (found := subject.of(run)) is not None]
                if shown:
                    held = float(np.mean([one.low <= truth <= one.high for one in shown]))
                    what = f"coverage, {subject.name}, {name}, n = {blocks}"
                    yield at_least(f"{what}, at least", held, LOW)
                    yield at_most(f"{what}, at most", held, HIGH)


def power(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often a true difference of 5 % is found in five blocks that differ by 10 %."""
    noise = SHAPES["normal"]
    small = type(noise)(lambda r, n: 1 + 0.4 * (noise.draw(r, n) - 1), 1, 1)
    levels = np.array([1.05, 1.0])
    runs = (simulate(random, small, 5, levels, between=0.1) for _ in range(times))
    found = float(np.mean([_told_apart(run.values) for run in runs]))
    yield at_least("power, ratio 1.05 at n = 5, at least", found, POWER)


def _told_apart(values: Values) -> bool:
    """Whether the leader is told apart from any other variant."""
    ranked = sorted(values.T.tolist(), key=np.median, reverse=True)
    ratios = [ratio_of_medians(ranked[0], other) for other in ranked[1:]]
    return any(ratio is not None and ratio.clear for ratio in ratios)


def false_alarms(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often one of several equal variants is told apart from another."""
    for variants in (2, 5, 10):
        for blocks in (3, 5):
            levels = np.ones(variants)
            runs = (simulate(random, SHAPES["normal"], blocks, levels) for _ in range(times))
            found = float(np.mean([_told_apart(run.values) for run in runs]))
            what = f"false alarms, {variants} equal variants, n = {blocks}, at most"
            yield at_most(what, found, FALSE)


def assertions(random: np.random.Generator, times: int) -> Iterator[Check]:
    """How often an assertion's outcome is wrong, its bound 3 % from the truth."""
    for blocks in SIZES:
        runs = (simulate(random, SHAPES["normal"], blocks, np.ones(1)) for _ in range(times))
        wrong = float(np.mean([np.median(run.values) >= 1.03 for run in runs]))
        yield at_most(f"assertion 3 % beyond the truth holds, n = {blocks}, at most", wrong, FALSE)


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
