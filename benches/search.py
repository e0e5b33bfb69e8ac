#!/usr/bin/env python3
"""Throughput searches beside each other, through a policer whose limit is known."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from harness.bench import Bench, Metric, Peer, SampleError
from harness.cli import Effort, main
from harness.lab import Lab, Namespace
from harness.obtain import hawserd
from harness.result import Check, at_most
from harness.samples import Samples
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab.plan import NodePlan
from hawser.probe.base import ProbeError
from hawser.probe.load.config import Amount
from hawser.probe.load.generator import Generator
from hawser.probe.load.port import SendingPort
from hawser.probe.search import mlr, rfc2544
from hawser.probe.search.trial import Goal, Log, LowerBound, SearchError, Trial
from hawser.spec.measurement import Throughput
from peers.wire import Faults, inserted

_RFC2544, _MLR = "rfc2544", "mlr"
_LIMITS = (50_000, 100_000, 200_000, 333_000, 500_000, 750_000, 1_000_000)
_GREATEST = 1_200_000
_LEAST = 10_000
_RESOLUTION = 0.002
_DEPTH_SECONDS = 0.00025
"""Depth of the policer's bucket: its excess is 0.025 % of a trial of 1 s, as with a bucket of 15 ms
and a trial of 60 s. A deeper bucket misleads the short trials of MLRsearch."""
_CATCH_UP_SECONDS = _DEPTH_SECONDS / 2
"""Lateness up to which the generator catches up with a burst, which the bucket must hold. Later
frames are not sent, and a trial with too many of them is repeated."""
_SECONDS = 1
"""Duration of a deciding trial, with which all searches of five rounds take about 20 minutes."""

_ABOUT = """\
A generator and a meter on XDP, and between them an XDP program with a token bucket of
{depth:g} ms: a device whose limit is known. Each sample searches the limit anew; 60-byte frames,
one flow, loss ratio 0, resolution {resolution} % of the load, from {least} to {greatest} frames/s,
one direction, one core. Both modes have the goal of RFC 2544 with trials of {seconds} s instead of
60 s: times scale with it. "Error" is the largest deviation from the policer's limit over all seven;
"trial time" is the sum of all trials of the seven searches. Time between trials is not counted."""


def _metric(limit: int) -> Metric:
    return Metric(f"found_{limit}", "frames/s", f"{limit // 1000} k", 0)


_METRICS = (
    *map(_metric, _LIMITS),
    Metric("error", "%", "error", 3),
    Metric("seconds", "s", "trial time", 1),
)

Search = Callable[[Log, Goal], tuple[LowerBound, ...]]

_LONGEST_SEARCH_SECONDS = 600.0


def _sample(search: Search, limit: int, seconds: float) -> Mapping[str, float]:
    with _policed() as (generator, faults):
        faults.set("police", rate=limit, depth=max(8, round(limit * _DEPTH_SECONDS)))

        def measure(load: float, duration: float) -> Trial:
            outcome = generator.trial(Amount(max(1, round(load * duration)), load))
            return Trial(load, duration, outcome.sent.frames, outcome.lost)

        goal = Goal(_LEAST, _GREATEST, seconds, (0.0,), _RESOLUTION)
        log = Log(measure, _LONGEST_SEARCH_SECONDS)
        try:
            (found,) = search(log, goal)
        except (SearchError, ProbeError) as error:
            raise SampleError(str(error)) from error
    return {f"found_{limit}": found.throughput, f"seconds_{limit}": log.seconds}


@contextlib.contextmanager
def _policed() -> Iterator[tuple[Generator, Faults]]:
    """A generator behind a policer."""
    with Lab() as lab, tempfile.TemporaryDirectory(prefix="hawser-search-") as folder:
        a, m, b = (lab.namespace(label) for label in "amb")
        lab.link(a, m)
        lab.link(m, b)
        with inserted(m.name, "wan0", "wan1") as faults:
            yield _generator(a, b, Path(folder)), faults


def _generator(a: Namespace, b: Namespace, folder: Path) -> Generator:
    traffic = Throughput.model_validate(
        {
            "probe": "throughput",
            "from": "a",
            "to": "b",
            "sizes": {"fixed": "60 B"},
            "catch_up": f"{_CATCH_UP_SECONDS * 1000} ms",
        }
    )
    source, target = (
        NamespaceNode(end, namespace.name, NodePlan(name=end, role="host", interfaces=()), folder)
        for end, namespace in (("a", a), ("b", b))
    )
    return Generator(
        traffic,
        (source, target),
        (SendingPort("wan0", "ff:ff:ff:ff:ff:ff"), "wan1"),
        (ip_address("198.18.0.1"), ip_address("198.18.1.2")),
        "xdp",
        hawserd=Path(os.environ["HAWSERD"]),
        drain=0.05,
    )


def _peer(name: str, search: Search, effort: Effort) -> Peer:
    program = hawserd()
    os.environ["HAWSERD"] = program.path
    cases = {f"{limit}": partial(_sample, search, limit, effort.seconds) for limit in _LIMITS}
    return Peer(name, program.version, cases)


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _RFC2544: partial(_peer, _RFC2544, rfc2544.search),
    _MLR: partial(_peer, _MLR, mlr.search),
}


def _derive(samples: Samples) -> None:
    """Largest error and time of each round in which all limits were searched."""
    for peer in _PEERS:
        for round_ in range(samples.rounds):
            found = {limit: samples.of(peer, f"found_{limit}").get(round_) for limit in _LIMITS}
            seconds = [samples.of(peer, f"seconds_{limit}").get(round_) for limit in _LIMITS]
            errors = [abs(load / limit - 1) for limit, load in found.items() if load is not None]
            times = [time for time in seconds if time is not None]
            if len(errors) == len(times) == len(_LIMITS):
                samples.add(peer, round_, {"error": 100 * max(errors), "seconds": sum(times)})


def _spread(samples: Samples, peer: str) -> float | None:
    """Largest difference between repeats of a search, in percent of the limit."""
    spreads = []
    for limit in _LIMITS:
        values = list(samples.of(peer, f"found_{limit}").values())
        if len(values) < samples.rounds:
            return None
        spreads.append(100 * (max(values) - min(values)) / limit)
    return max(spreads)


def _checks(samples: Samples) -> list[Check]:
    checks = []
    for peer in _PEERS:
        checks += [
            at_most(f"{peer}, error in %, at most", samples.largest(peer, "error"), 0.5),
            at_most(f"{peer}, repeats apart in %, at most", _spread(samples, peer), 0.5),
        ]
    share = samples.ratio("seconds", _MLR, _RFC2544)
    return [*checks, at_most(f"{_MLR} / {_RFC2544}, trial time, at most", share, 1 / 3)]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="search",
        title="Throughput searches",
        about=_ABOUT.format(
            depth=_DEPTH_SECONDS * 1000,
            resolution=_RESOLUTION * 100,
            least=f"{_LEAST:,}".replace(",", " "),
            greatest=f"{_GREATEST:,}".replace(",", " "),
            seconds=effort.seconds,
        ),
        metrics=_METRICS,
        peers=peers,
        derive=_derive,
        checks=_checks,
    )


_TOOLS = (("ip", "iproute2"), ("bpftool", "bpftool"), ("clang", "clang"))

if __name__ == "__main__":
    sys.exit(main(str(__doc__), _TOOLS, _PEERS, _bench, seconds=_SECONDS))
