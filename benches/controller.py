#!/usr/bin/env python3
"""A controller on one core with 10, 100 and 1000 simulated gateways: `make bench-controller`."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from harness.controller import CONNECT_S, Controller, running
from harness.docs import check_page, renew
from harness.gateways import names
from harness.machine import ROOT, Machine, describe
from harness.result import Check, Result, Row, at_most
from harness.table import markdown_checks
from hawser.store.statistics.roll import SCHEMA

SIZES = (10, 100, 1000)
"""Gateways."""
SECONDS = 30
"""How long the API is measured, unless told otherwise."""
PAUSE_S = 0.05
"""Between two requests."""
WEEK_SERIES = 5000
"""Series in the files of a week: those of 250 gateways."""
DAY = 86400

ABOUT = """\
Gateways are simulated by a process on another core: each has a certificate and a WebSocket over
mutual TLS of its own, reports 20 series once a second, keeps reports until they are acknowledged,
and keeps a new configuration four seconds after it came, as real ones do. The network has two hubs,
and `label_bits: 5`. The controller (SQLite) has one core. A client asks the API in turn, over a
connection that stays: all gateways, one gateway, the network, versions, the audit log, the traffic
matrix, an hour of a series, Prometheus. *Change* is the time from a request that changes every
configuration to the answer that says that all gateways have kept it, four seconds of which the
gateways take. Lost reports are those that the gateways' sequence numbers show and the history at
1 s lacks. *Week* is the history of one series at one minute (10 080 rows) among 5000 series of
seven days."""


@dataclass
class Figures:
    """What was measured with so many gateways."""

    count: int
    api_ms: list[float]
    change_s: float
    memory_mib: float
    anonymous_mib: float
    processor: float
    """Share of the core while the API was asked."""
    reports: int
    lost: int


def measure(folder: Path, count: int, seconds: int, say: Callable[[str], None]) -> Figures:
    """Measure a controller with so many gateways."""
    with running(folder, count, cores()) as (controller, gateways):
        client = controller.client()
        wait(lambda: gateways.ask("state")["kept"].get("1", 0) == count, CONNECT_S + 120)
        say(f"{count} gateways are connected")
        before, began = controller.processor_s(), time.monotonic()
        api = [1000 * each for each in ask(client, seconds)]
        busy = (controller.processor_s() - before) / (time.monotonic() - began)
        say(f"{count} gateways: API p99 {percentile(api, 99):.0f} ms")
        took = change(client, count)
        say(f"{count} gateways: changed in {took:.1f} s")
        ended = gateways.ask("end")
        memory = controller.memory()
        lost = sum(missing(client, n, each) for n, each in enumerate(ended["sequences"]))
        lost += ended["dropped"]
        client.close()
    return Figures(
        count,
        api,
        took,
        memory["peak"],
        memory["anonymous"],
        busy,
        ended["reports"],
        lost,
    )


def cores() -> tuple[int, int]:
    """Give the core of the controller and that of the gateways."""
    first, *others = sorted(os.sched_getaffinity(0))
    return first, others[0] if others else first


def wait(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the gateways are not as they should be")
        time.sleep(0.2)


def ask(client: httpx.Client, seconds: int) -> Iterator[float]:
    """Ask in turn; give how long each answer took, seconds."""
    paths = (
        "/v1/gateways",
        "/v1/gateways/1",
        "/v1/network",
        "/v1/versions",
        "/v1/audit?limit=20",
        "/v1/statistics/matrix",
        f"/v1/statistics/history?branch=b1&points=3600&series={names()[0]}",
        "/v1/metrics",
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in paths:
            began = time.monotonic()
            client.get(path).raise_for_status()
            yield time.monotonic() - began
            time.sleep(PAUSE_S)


def change(client: httpx.Client, count: int) -> float:
    """Change all configurations; give how long it takes until all are kept, seconds."""
    began = time.monotonic()
    body = {"patch": {"overlay": {"queue": "2 MB"}}, "reason": "a bench"}
    client.patch("/v1/network", json=body).raise_for_status()

    def kept() -> bool:
        found = client.get("/v1/gateways").raise_for_status().json()
        states = [each["configuration"] for each in found]
        return len([each for each in states if each["applied_version"] == 2]) == count

    wait(kept, 120)
    return time.monotonic() - began


def missing(client: httpx.Client, number: int, reports: int) -> int:
    """Give how many reports of a gateway are not in the history. The first series numbers them."""
    asked = {"branch": f"b{number}", "series": names()[0], "resolution": "1s"}
    found = client.get("/v1/statistics/history", params=asked).raise_for_status().json()
    return len(set(range(reports)) - {round(each) for each in found["series"][0]["mean"]})


def week(folder: Path, say: Callable[[str], None]) -> list[float]:
    """Give how long the history of a week takes, milliseconds."""
    controller = Controller(folder, 2)
    end = int(time.time()) // DAY * DAY
    write(controller.directory.statistics / "minutes", end)
    say("files of a week are written")
    controller.start(cores()[0])
    took = []
    chance = random.Random(1)  # noqa: S311 (repeatable)
    try:
        client = controller.client()
        for _ in range(20):
            asked = {
                "branch": f"b{chance.randrange(WEEK_SERIES // 20)}",
                "series": chance.choice(names()),
                "resolution": "1min",
                "since": f"{np.datetime64(end - 7 * DAY, 's')}Z",
                "until": f"{np.datetime64(end, 's')}Z",
            }
            began = time.monotonic()
            found = client.get("/v1/statistics/history", params=asked).raise_for_status().json()
            took.append(1000 * (time.monotonic() - began))
            if len(found["series"][0]["times"]) != 7 * DAY // 60:
                raise ValueError("the history is not whole")
    finally:
        controller.stop()
    return took


def write(folder: Path, end: int) -> None:
    """Write the files of the seven days before a time."""
    folder.mkdir(parents=True)
    chance = np.random.default_rng(1)
    owners = sorted((f"b{n}", name) for n in range(WEEK_SERIES // 20) for name in names())
    for day in range(end - 7 * DAY, end, DAY):
        path = folder / f"{np.datetime64(day, 's').astype('datetime64[D]')}.parquet"
        times = (day + 60 * np.arange(1440)).astype("datetime64[s]").astype("datetime64[ms]")
        with pq.ParquetWriter(
            path, SCHEMA, compression="zstd", use_dictionary=["branch", "series"]
        ) as writer:
            for at in range(0, len(owners), 80):
                writer.write_table(_table(owners[at : at + 80], times, chance))


def _table(
    owners: Sequence[tuple[str, str]], times: np.ndarray, chance: np.random.Generator
) -> pa.Table:
    count = len(owners) * len(times)
    repeated = np.repeat(np.arange(len(owners)), len(times))
    mean = chance.lognormal(3, 1, count).astype(np.float32)
    columns = [
        pa.array([branch for branch, _ in owners]).take(pa.array(repeated)),
        pa.array([name for _, name in owners]).take(pa.array(repeated)),
        pa.array(np.tile(times, len(owners))),
        pa.array(mean),
        pa.array(mean * np.float32(0.5)),
        pa.array(mean * np.float32(2)),
        pa.array(np.full(count, 60, np.uint16)),
    ]
    return pa.table(columns, schema=SCHEMA)


def percentile(values: Sequence[float], at: int) -> float:
    """Give a percentile."""
    return quantiles(values, n=100, method="inclusive")[at - 1]


def checks(found: Sequence[Figures], weeks: Sequence[float]) -> list[Check]:
    """What has to hold."""
    made = []
    for each in found:
        name = f"{each.count} gateways"
        made += [
            at_most(f"{name}: p99 of the API, ms", percentile(each.api_ms, 99), 200),
            at_most(f"{name}: peak memory, MiB", each.memory_mib, 512),
            at_most(f"{name}: lost reports", float(each.lost), 0),
            at_most(f"{name}: change, s", each.change_s, 10),
        ]
    return [*made, at_most("history of a week, ms", max(weeks), 200)]


def rows(found: Sequence[Figures], weeks: Sequence[float]) -> list[Row]:
    """The values for the result file."""
    made = []
    for each in found:
        name = f"{each.count} gateways"
        made += [
            _row(name, "api", "ms", each.api_ms),
            _row(name, "change", "s", [each.change_s]),
            _row(name, "memory", "MiB", [each.memory_mib]),
            _row(name, "anonymous_memory", "MiB", [each.anonymous_mib]),
            _row(name, "processor", "%", [100 * each.processor]),
            _row(name, "reports", "1", [float(each.reports)]),
            _row(name, "lost", "1", [float(each.lost)]),
        ]
    return [*made, _row("history", "week", "ms", weeks)]


def _row(name: str, metric: str, unit: str, values: Sequence[float]) -> Row:
    return Row.of(name, metric, unit, dict(enumerate(values)))


def section(
    found: Sequence[Figures], weeks: Sequence[float], judged: Sequence[Check], machine: Machine
) -> str:
    """The bench's section of docs/benchmarks.md."""
    heads = (
        "API median, ms",
        "API p99, ms",
        "change, s",
        "peak memory, MiB",
        "anonymous, MiB",
        "core, %",
        "reports",
        "lost",
    )
    lines = [f"| gateways | {' | '.join(heads)} |", f"| ---: |{' ---: |' * len(heads)}"]
    for each in found:
        cells = (
            f"{median(each.api_ms):.1f}",
            f"{percentile(each.api_ms, 99):.0f}",
            f"{each.change_s:.1f}",
            f"{each.memory_mib:.0f}",
            f"{each.anonymous_mib:.0f}",
            f"{100 * each.processor:.0f}",
            f"{each.reports}",
            f"{each.lost}",
        )
        lines.append(f"| {each.count} | {' | '.join(cells)} |")
    where = (
        f"{machine.date}, revision {machine.revision}. {machine.cpu}, {machine.cores} cores; "
        f"{machine.system}, Linux {machine.kernel}."
    )
    a_week = f"History of a week: {median(weeks):.0f} ms ({min(weeks):.0f} to {max(weeks):.0f})."
    repeat = "Repeat: `make bench-controller`; all values: `target/bench/controller.json`."
    table, judgement = "\n".join(lines), "\n".join(markdown_checks(judged))
    parts = ("## Controller", ABOUT, where, table, a_week, judgement, repeat)
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Measure; exit code 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--gateways", type=int, action="append", help="so many, in place of 10, 100 and 1000")
    add("--seconds", type=int, default=SECONDS, help=f"of requests (default {SECONDS})")
    chosen = parser.parse_args(arguments)
    console = Console(stderr=True)
    page, full = ROOT / "docs" / "benchmarks.md", not chosen.gateways
    if full:
        check_page(page, "controller")
    found = []
    for count in chosen.gateways or SIZES:
        with tempfile.TemporaryDirectory(prefix="hawser-bench-") as folder:
            found.append(measure(Path(folder), count, chosen.seconds, console.print))
    with tempfile.TemporaryDirectory(prefix="hawser-bench-") as folder:
        weeks = week(Path(folder), console.print)
    machine, judged = describe({}, 1), checks(found, weeks)
    result = Result(bench="controller", machine=machine, rows=rows(found, weeks), checks=judged)
    name = "controller" if full else "controller-partial"
    result.write(ROOT / "target" / "bench" / f"{name}.json")
    text = section(found, weeks, judged, machine)
    if full:
        renew(page, "controller", text)
    console.print(text.split("\n\n", 3)[3], markup=False)
    return 0 if all(each.ok for each in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
