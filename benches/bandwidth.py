#!/usr/bin/env python3
"""Available bandwidth, estimated beside the truth: `make bench-bandwidth`.

First on simulated paths, then on links in network namespaces.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from harness.bandwidth_lab import TRUTH, Link, estimated
from harness.docs import check_page, renew
from harness.machine import ROOT, Machine, describe
from harness.obtain import hawserd
from harness.path_simulation import draw
from harness.path_simulation import estimated as simulated
from harness.result import Check, Result, Row, at_least, at_most
from harness.table import markdown_checks
from hawser.node.turn import TurnError, Turns
from hawser.probe.base import ProbeError

SIMULATED = 200
REAL = 20
SECONDS = 12.0
"""Of a real measurement."""
SHARE = 0.01
_MINUTE = 60.0
WITHIN = 0.2
ENOUGH, HELD = 0.8, 0.9
"""Shares of estimates that must be within 20 %, and whose interval must hold the truth."""
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

ABOUT = """\
*Simulated*: {simulated} paths of 1 to 1000 Mbit/s with other traffic of 0 to 80 % (constant,
Poisson, self-similar), half of them shapers with buckets of 1 to 50 ms, ports declared 1 to 2
times as fast; a minute in virtual time each, seeds from 0. *Real*: {real} links of 2 to 300
Mbit/s in network namespaces, shaped by HTB and delayed by `hawserd wan`, other traffic of 0 to 80
% in bursts of 1 to 12 frames, half of them with buckets of 5 to 30 ms; the traffic of a minute in
{seconds:g} s. The error is that of the estimate, relative to the truth; traffic is that of a
minute."""


@dataclass(frozen=True)
class Outcome:
    """An estimate beside the truth."""

    truth: float
    """bit/s."""
    available: float
    low: float
    high: float
    traffic: float
    """Share of the declared port, over a minute."""
    seconds: float
    disturbed: float
    """Trains that were disturbed."""

    @property
    def error(self) -> float:
        """Relative to the truth."""
        return self.available / self.truth - 1

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high

    @property
    def width(self) -> float:
        """Half of the interval, relative to the truth."""
        return (self.high - self.low) / 2 / self.truth


def simulate(count: int) -> list[Outcome]:
    """Estimate simulated paths."""
    made = []
    for seed in range(count):
        case = draw(seed)
        found = simulated(case)
        best, traffic = found.estimate, found.spent / (case.port * _MINUTE)
        made.append(
            Outcome(
                truth=found.truth,
                available=best.available,
                low=best.low,
                high=best.high,
                traffic=traffic,
                seconds=found.seconds,
                disturbed=found.disturbed,
            )
        )
    return made


def link(seed: int) -> Link:
    """Draw a real link."""
    chance = random.Random(seed)  # noqa: S311 (repeatable)
    rate = 10 ** chance.uniform(6.3, 8.48)
    bucket = chance.uniform(0.005, 0.03) if seed % 2 else 0.0
    port = rate * chance.choice([1.0, 1.25, 2.0])
    return Link(rate, chance.uniform(0, 0.8), bucket, port)


def measure(count: int, console: Console) -> list[Outcome]:
    """Estimate real links, one after the other."""
    made, share = [], SHARE * _MINUTE / SECONDS
    with tempfile.TemporaryDirectory(prefix="hawser-bandwidth-") as folder:
        for seed in range(count):
            one = link(seed)
            name = f"bandwidth-{os.getpid()}-{seed}"
            values = estimated(name, one, Path(folder), SECONDS, share)
            found = Outcome(
                truth=values[TRUTH] * 1e6,
                available=values["available_bandwidth"] * 1e6,
                low=values["available_bandwidth_low"] * 1e6,
                high=values["available_bandwidth_high"] * 1e6,
                traffic=values["probe_traffic"] / 100 * SECONDS / _MINUTE,
                seconds=values["probe_time"],
                disturbed=values["trains_disturbed"],
            )
            made.append(found)
            console.print(_told(seed, one, found), markup=False)
    return made


def _told(seed: int, one: Link, found: Outcome) -> str:
    bounds = f"{found.low / 1e6:.3g} to {found.high / 1e6:.3g}"
    mark = "" if found.is_held else ", which does not hold it"
    return (
        f"{seed}: {one.rate / 1e6:.3g} Mbit/s, load {one.load:.0%}, bucket {1e3 * one.bucket_s:.0f}"
        f" ms: {found.truth / 1e6:.3g} available, estimated {found.available / 1e6:.3g} "
        f"({bounds}{mark})"
    )


def checks(name: str, found: Sequence[Outcome]) -> list[Check]:
    """What has to hold."""
    within = [abs(each.error) <= WITHIN for each in found]
    held = [each.is_held for each in found]
    return [
        at_least(f"{name}: within 20 %, share of paths, at least", float(np.mean(within)), ENOUGH),
        at_least(f"{name}: interval holds the truth, share of paths", float(np.mean(held)), HELD),
        at_most(f"{name}: traffic, share of the port", max(e.traffic for e in found), SHARE),
    ]


def rows(name: str, found: Sequence[Outcome]) -> list[Row]:
    """The values for the result file."""
    values = {
        ("truth", "bit/s"): [each.truth for each in found],
        ("error", "1"): [each.error for each in found],
        ("width", "1"): [each.width for each in found],
        ("traffic", "1"): [each.traffic for each in found],
        ("time", "s"): [each.seconds for each in found],
        ("disturbed", "trains"): [each.disturbed for each in found],
    }
    return [
        Row.of(name, metric, unit, dict(enumerate(each))) for (metric, unit), each in values.items()
    ]


def table(found: dict[str, list[Outcome]]) -> str:
    """Distributions of errors, interval widths, traffic and time."""
    lines = ["| % | " + " | ".join(f"{100 * level:.0f} %" for level in _LEVELS) + " |"]
    lines.append("| --- |" + " ---: |" * len(_LEVELS))
    for name, each in found.items():
        for what, values in (
            ("error", [e.error for e in each]),
            ("size of the error", [abs(e.error) for e in each]),
            ("half interval", [e.width for e in each]),
            ("traffic of the port", [e.traffic for e in each]),
        ):
            cells = (f"{100 * q:.2g}" for q in np.quantile(values, _LEVELS))
            lines.append(f"| {name}: {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def section(found: dict[str, list[Outcome]], result: Result, machine: Machine) -> str:
    """The bench's section of docs/benchmarks.md."""
    about = ABOUT.format(
        simulated=len(found["simulated"]), real=len(found.get("real", ())), seconds=SECONDS
    )
    where = (
        f"{machine.date}, revision {machine.revision}. {machine.cpu}, {machine.cores} cores; "
        f"{machine.system}, Linux {machine.kernel}."
    )
    quantiles = "Quantiles over paths:"
    repeat = "Repeat: `make bench-bandwidth`; all values: `target/bench/bandwidth.json`."
    judged = "\n".join(markdown_checks(result.checks))
    parts = ("## Bandwidth estimation", about, where, quantiles, table(found), judged, repeat)
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Simulate and measure; exit code 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--simulated", type=int, default=SIMULATED, metavar="N", help="simulated paths")
    add("--real", type=int, default=REAL, metavar="N", help="real links (default 20; needs root)")
    chosen = parser.parse_args(arguments)
    console, page = Console(stderr=True), ROOT / "docs" / "benchmarks.md"
    full = chosen.simulated >= SIMULATED and chosen.real >= REAL
    if full:
        check_page(page, "bandwidth")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its labs are removed
    begin = time.monotonic()
    found = {"simulated": simulate(max(1, chosen.simulated))}
    console.print(f"simulated in {time.monotonic() - begin:.0f} s")
    try:
        if chosen.real > 0:
            if not os.environ.get("HAWSERD"):
                os.environ["HAWSERD"] = hawserd().path
            with Turns("bench bandwidth").take(console.print):
                found["real"] = measure(chosen.real, console)
    except (ProbeError, TurnError) as error:
        console.print(f"{error}; nothing written", markup=False)
        return 3
    machine = describe({}, 0)
    judged = [check for name, each in found.items() for check in checks(name, each)]
    made = [row for name, each in found.items() for row in rows(name, each)]
    result = Result(bench="bandwidth", machine=machine, rows=made, checks=judged)
    name = "bandwidth" if full else "bandwidth-partial"
    result.write(ROOT / "target" / "bench" / f"{name}.json")
    text = section(found, result, machine)
    if full:
        renew(page, "bandwidth", text)
    console.print(text.split("\n\n", 3)[3], markup=False)
    return 0 if all(each.ok for each in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
