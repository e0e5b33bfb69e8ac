#!/usr/bin/env python3
"""Intrusion detection: frames a second through a sensor and beside it; flows scored, and sent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness.bench import Bench, Measure, Metric, Peer
from harness.cli import Effort, main
from harness.lab import Lab
from harness.obtain import hawserd
from harness.result import Check, Figure, at_least
from harness.samples import Samples
from peers import chain, frames, scorers, sensors, streams
from peers.chain import Row

_FORWARDER, _FIREWALL = "hawser forwarder", "hawser firewall, 10 rules"
_SENSOR, _TWO = "hawser ids, in line", "hawser ids, in line, 2 workers"
_SFF, _MIRRORED = "hawser sff and forwarder", "the same, mirrored to hawser ids"
_TREES, _TABLES, _SKLEARN = "hawser trees", "hawser ids and its job on Spark", "scikit-learn"
_SHIP, _SPARK = "hawser ids ship, Kafka", "hawser ids ship, Kafka, job on Spark"
_RATE, _MOST, _MANY = "rate", "most", "rate_flows"
_SCORED, _OBSERVED, _SHIPPED, _STORED = "scored", "observed", "shipped", "stored"
_FLOWS = 1000
_SIZE = 64

_ABOUT = """\
A chain of one function, in namespaces joined by veth links, on one core as in the section on
service chains; the sensor's own threads may use the others. In line, every frame passes the sensor,
which scores each flow by a forest of ten trees and writes its records. Mirrored, a forwarder
reports the packets that enter its paths to a sensor that is no part of the chain. The rate is the
highest at which no frame is lost in {trial} s, found by halving to 4 %, with one flow and with
{flows}; overloaded means what arrives of frames that are sent as fast as can be. Frames of {size}
bytes before the network service header. Observations that a full ring loses hold up no frame, and
are counted apart. Flows scored: a million flows on one core, by a forest that scikit-learn has
trained, of ten trees of depth 8 as well: the daemon's code flow by flow, the others 100 000 at a
time; `hawser ids` and its job on Spark score by the same code. Records shipped: 100 000 of a
sensor's log into Kafka on the same machine, in transactions, until the last one is committed; a
reader then has found each. Records stored: the same, until a job on Spark that runs already has
scored each by the forest and written it to the history; none is missing, and none is twice."""

METRICS = (
    Metric(_RATE, "million/s", "1 flow", 3),
    Metric(_MANY, "million/s", f"{_FLOWS} flows", 3),
    Metric(_MOST, "million/s", "overloaded", 3),
    Metric(_OBSERVED, "%", "observed, overloaded", 1),
    Metric(_SCORED, "million/s", "flows scored", 2),
    Metric(_SHIPPED, "thousand/s", "records shipped", 1),
    Metric(_STORED, "thousand/s", "records stored", 1),
)

Build = Callable[[Row], sensors.Observed | None]
Make = Callable[[Lab], tuple[Row, sensors.Observed]]


def _rates(make: Make, *, header: bool) -> Mapping[str, float]:
    with Lab() as lab:
        row, observed = make(lab)
        one, many = (frames.Load(_SIZE, header, flows) for flows in (1, _FLOWS))
        first = frames.overloaded(row, one)
        found = {_MOST: first.received / 1e6}
        share = observed()
        if share is not None:
            found[_OBSERVED] = 100 * share
        found[_RATE] = frames.highest(row, one, first) / 1e6
        found[_MANY] = frames.highest(row, many, frames.overloaded(row, many)) / 1e6
        return found


def _row(build: Build, lab: Lab) -> tuple[Row, sensors.Observed]:
    row = chain.row(lab, 1)
    return row, build(row) or sensors.nothing


def _case(name: str, make: Make, *, header: bool) -> Peer:
    measure: Measure = partial(_rates, make, header=header)
    return Peer(name, hawserd().version, {f"{_SIZE} B": measure})


def _in_row(name: str, build: Callable[[str, Row], sensors.Observed | None], _: Effort) -> Peer:
    return _case(name, partial(_row, partial(build, hawserd().path)), header=True)


def _steered(name: str, mirrored: bool, _: Effort) -> Peer:
    return _case(name, partial(sensors.steered, hawserd().path, mirrored=mirrored), header=False)


def _scorer(name: str, obtain: Callable[[], scorers.Scored], _: Effort) -> Peer:
    scored = obtain()
    return Peer(name, cases={"scores": lambda: {_SCORED: scored() / 1e6}})


def _ship(_: Effort) -> Peer:
    shipped = streams.shipped()
    return Peer(_SHIP, cases={"records": lambda: {_SHIPPED: shipped() / 1e3}})


def _spark(_: Effort) -> Peer:
    scored = streams.scored(scorers.model)
    return Peer(_SPARK, cases={"records": lambda: {_STORED: scored() / 1e3}})


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _FORWARDER: partial(_in_row, _FORWARDER, chain.hawser),
    _FIREWALL: partial(_in_row, _FIREWALL, lambda program, row: chain.firewall(program, 10, row)),
    _SENSOR: partial(_in_row, _SENSOR, partial(sensors.in_line, 1)),
    _TWO: partial(_in_row, _TWO, partial(sensors.in_line, 2)),
    _SFF: partial(_steered, _SFF, False),
    _MIRRORED: partial(_steered, _MIRRORED, True),
    _TREES: partial(_scorer, _TREES, scorers.trees),
    _TABLES: partial(_scorer, _TABLES, partial(scorers.python, "table")),
    _SKLEARN: partial(_scorer, _SKLEARN, partial(scorers.python, "sklearn")),
    _SHIP: _ship,
    _SPARK: _spark,
}


def _checks(samples: Samples) -> list[Check]:
    return [
        *(
            at_least(
                f"{_SENSOR} / {_FIREWALL}, {metric}, at least",
                samples.ratio(metric, _SENSOR, _FIREWALL),
                0.5,
            )
            for metric in (_RATE, _MANY, _MOST)
        ),
        *(
            at_least(
                f"{_MIRRORED} / without, {metric}, at least",
                samples.ratio(metric, _MIRRORED, _SFF),
                0.9,
            )
            for metric in (_RATE, _MANY, _MOST)
        ),
    ]


def _figures(samples: Samples) -> list[Figure]:
    return [
        Figure(
            name=f"{_TREES}, million flows/s on one core, at least",
            value=samples.median(_TREES, _SCORED),
            aim=1,
        ),
        Figure(
            name=f"{_TREES} / {_SKLEARN}, at least",
            value=samples.ratio(_SCORED, _TREES, _SKLEARN),
            aim=1,
        ),
    ]


def _bench(_effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="ids",
        title="Intrusion detection",
        about=_ABOUT.format(trial=frames.TRIAL_S, flows=_FLOWS, size=_SIZE),
        metrics=METRICS,
        peers=peers,
        checks=_checks,
        figures=_figures,
    )


TOOLS = (
    ("ip", "iproute2"),
    ("taskset", "util-linux"),
    ("nsenter", "util-linux"),
    ("cargo", "cargo"),
)

if __name__ == "__main__":
    sys.exit(main(str(__doc__), TOOLS, _PEERS, _bench, rounds=3))
