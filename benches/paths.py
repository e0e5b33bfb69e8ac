#!/usr/bin/env python3
"""The path program at the sizes of real networks: `make bench-paths`."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import permutations
from statistics import median
from typing import TypeVar

import numpy as np
from rich.console import Console
from scipy.optimize import linprog

from harness.docs import check_page, renew
from harness.machine import ROOT, Machine, describe
from harness.result import Check, Figure, Result, Row, at_most
from harness.table import markdown_checks, markdown_figures
from hawser.optimise.carried import carried
from hawser.optimise.members import groups
from hawser.optimise.program import Program
from hawser.optimise.wan import Demand, Limits, Wan
from hawser.spec.route import Stop
from peers.enumerated_paths import MBIT, optimum, sample

Found = TypeVar("Found")


@dataclass(frozen=True)
class Size:
    """Networks that are solved: how many branches, and WAN ports of each."""

    branches: int
    ports: int
    cold_s: float
    """What a first solution may take on the machine that the limits come from."""
    warm_s: float
    """The same for one after `CHANGED` tunnels have changed."""
    rounds: int

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.branches} x {self.ports}"


SIZES = (
    Size(15, 2, 0.2, 0.1, 9),
    Size(15, 4, 0.3, 0.1, 9),
    Size(50, 2, 5.0, 0.3, 3),
    Size(100, 2, 30.0, 0.5, 3),
)
CHANGED = 20
"""Tunnels whose rate has changed since the solution before."""
CALIBRATION_S = 0.12
"""What the calibration takes on that machine (2 cores, Intel Xeon, idle). Limits are ratios to it,
so that they hold on another machine, and on one that is busy all the time."""
SUPPLIES = 90
"""Sources, and sinks, of the calibration's transport problem."""
SEEDS = range(40)
"""Small networks that are compared to the enumerated program."""

ABOUT = """\
Networks are drawn with port rates of 10 to 100 Mbit/s, of which a tunnel carries 1 to 100 %, and a
demand between all pairs that is lognormal. *Cold* builds the program and solves it; *warm* solves
it again after 20 tunnels have changed, as the controller does. *Members* is the decomposition into
groups of at most 16 paths. One core. Ratios are to a calibration solved right before each
network: a transport problem of 90 x 90 by scipy's simplex. *Difference* is that of the optimum to
the same program over enumerated paths, the largest of 40 small networks; *loss* is what groups
carry less than the optimum."""


@dataclass
class Times:
    """Seconds, by what was done."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    members: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """Share of the goodput."""
    calibration: list[float] = field(default_factory=list)
    """Before each network."""


def network(size: Size, seed: int) -> tuple[Wan, Demand]:
    """Draw a network and a demand."""
    chance = random.Random(seed)  # noqa: S311 (repeatable)
    names = [f"b{n}" for n in range(size.branches)]
    ports = {
        Stop(name, f"w{n}"): Limits(
            chance.choice([10, 20, 50, 100]) * MBIT, chance.choice([20, 50, 100, 200]) * MBIT
        )
        for name in names
        for n in range(size.ports)
    }
    tunnels = {
        (one, other): min(ports[one].egress, ports[other].ingress)
        * chance.choice([0.01, 0.02, 0.05, 0.1, 0.5, 1, 1, 1])
        for one, other in permutations(ports, 2)
        if one.branch != other.branch
    }
    each = 40 * MBIT / size.branches
    demand = {pair: each * chance.lognormvariate(0, 1) for pair in permutations(names, 2)}
    return Wan(ports, tunnels), demand


def changed(wan: Wan, seed: int) -> Wan:
    """Give the network after some tunnels have changed."""
    chance = random.Random(seed)  # noqa: S311 (repeatable)
    others = {each: wan.tunnels[each] * 0.3 for each in chance.sample(sorted(wan.tunnels), CHANGED)}
    return Wan(wan.ports, {**wan.tunnels, **others})


def timed(work: Callable[[], Found], times: list[float]) -> Found:
    """Note how long it takes."""
    began = time.perf_counter()
    found = work()
    times.append(time.perf_counter() - began)
    return found


def calibrate() -> None:
    """Solve a transport problem that is always the same, by another program's simplex method."""
    chance = np.random.default_rng(1)
    costs = chance.random((SUPPLIES, SUPPLIES))
    ones = np.ones(SUPPLIES)
    rows = np.vstack([np.kron(np.eye(SUPPLIES), ones), np.kron(ones, np.eye(SUPPLIES))])
    supplies = np.concatenate([ones, ones])
    solved = linprog(costs.ravel(), A_eq=rows, b_eq=supplies, method="highs-ds")
    if not solved.success:
        raise ArithmeticError(f"the calibration has no solution: {solved.message}")


def measure(size: Size, seed: int, found: Times) -> None:
    """Solve one network."""
    wan, demand = network(size, seed)
    program = Program()
    timed(calibrate, found.calibration)
    timed(lambda: program.solve(wan, demand), found.cold)
    now = changed(wan, seed)
    best = timed(lambda: program.solve(now, demand), found.warm)
    chosen = timed(lambda: groups(best, now), found.members)
    found.loss.append(1 - carried(now, best.rates, chosen).total / best.total)


def differences() -> list[float]:
    """Give the relative differences to the enumerated program."""
    found = []
    for seed in SEEDS:
        wan, demand = sample(seed, 3 + seed % 3, 1 + seed % 2)
        best, reference = Program().solve(wan, demand).objective, optimum(wan, demand)
        found.append(abs(best - reference) / max(abs(reference), 1e-9))
    return found


def checks(
    found: Mapping[str, Times], sizes: Sequence[Size], unlike: Sequence[float]
) -> list[Check]:
    """What has to hold."""
    made = []
    for size in sizes:
        times, name = found[size.name], size.name
        for what, values, limit in (
            ("cold", times.cold, size.cold_s),
            ("warm", times.warm, size.warm_s),
        ):
            pairs = zip(values, times.calibration, strict=True)
            ratio = median(value / calibration for value, calibration in pairs)
            made.append(at_most(f"{name}: {what} / calibration", ratio, limit / CALIBRATION_S))
        made.append(at_most(f"{name}: loss of the groups", max(times.loss), 0.02))
    return [*made, at_most("difference to the enumerated program", max(unlike), 0.001)]


def figures(found: Mapping[str, Times], sizes: Sequence[Size], calibration: float) -> list[Figure]:
    """The absolute figures, which are not judged."""
    made = [Figure(name="calibration, s", value=calibration, aim=CALIBRATION_S)]
    for size in sizes:
        times = found[size.name]
        made += [
            Figure(name=f"{size.name}: cold, s", value=median(times.cold), aim=size.cold_s),
            Figure(name=f"{size.name}: warm, s", value=median(times.warm), aim=size.warm_s),
        ]
    return made


def rows(found: Mapping[str, Times], calibration: Sequence[float]) -> list[Row]:
    """The values for the result file."""
    made = [Row.of("calibration", "time", "s", dict(enumerate(calibration)))]
    for name, times in found.items():
        made += [
            Row.of(name, metric, "s", dict(enumerate(values)))
            for metric, values in (
                ("cold", times.cold),
                ("warm", times.warm),
                ("members", times.members),
            )
        ]
        made.append(Row.of(name, "loss", "1", dict(enumerate(times.loss))))
    return made


def section(found: Mapping[str, Times], result: Result, machine: Machine) -> str:
    """The bench's section of docs/benchmarks.md."""
    lines = ["| branches x ports | cold, s | warm, s | members, s | loss, % |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, times in found.items():
        cells = [median(each) for each in (times.cold, times.warm, times.members)]
        texts = [f"{each:.3f}" for each in cells] + [f"{100 * max(times.loss):.2f}"]
        lines.append(f"| {name} | {' | '.join(texts)} |")
    where = (
        f"{machine.date}, revision {machine.revision}. {machine.cpu}, {machine.cores} cores; "
        f"{machine.system}, Linux {machine.kernel}; highspy {machine.software['highspy']}."
    )
    repeat = "Repeat: `make bench-paths`; all values: `target/bench/paths.json`."
    judged = "\n".join(markdown_checks(result.checks))
    told = "\n".join(markdown_figures(result.figures))
    return "\n\n".join(("## Path program", ABOUT, where, "\n".join(lines), judged, told, repeat))


def main(arguments: list[str] | None = None) -> int:
    """Measure; exit code 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--most", type=int, default=SIZES[-1].branches, help="networks of at most so many branches"
    )
    chosen = parser.parse_args(arguments)
    sizes = [size for size in SIZES if size.branches <= chosen.most]
    page, full, console = ROOT / "docs" / "benchmarks.md", sizes == [*SIZES], Console(stderr=True)
    if full:
        check_page(page, "paths")
    found = {size.name: Times() for size in sizes}
    for seed in range(max(size.rounds for size in sizes)):
        for size in sizes:
            if seed < size.rounds:
                measure(size, seed, found[size.name])
        console.print(f"round {seed + 1}")
    calibration = [each for times in found.values() for each in times.calibration]
    machine = describe({"highspy": version("highspy")}, 0)
    result = Result(
        bench="paths",
        machine=machine,
        rows=rows(found, calibration),
        checks=checks(found, sizes, differences()),
        figures=figures(found, sizes, median(calibration)),
    )
    result.write(ROOT / "target" / "bench" / f"{'paths' if full else 'paths-partial'}.json")
    text = section(found, result, machine)
    if full:
        renew(page, "paths", text)
    console.print(text.split("\n\n", 3)[3], markup=False)
    return 0 if all(each.ok for each in result.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
