#!/usr/bin/env python3
"""Load generators beside each other: 60-byte frames a second through a veth pair, on one core."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from harness.bench import Bench, Measure, Metric, Peer, SampleError
from harness.cli import Effort, main
from harness.lab import Lab
from harness.obtain import from_system, hawserd
from harness.result import Check, Figure, at_least, at_most
from harness.samples import Samples
from peers import generators
from peers.generators import CORE

_BARE, _HAWSER = "bare live frames", "hawser load"
_RATES = (1_000, 10_000, 100_000, 300_000, 1_000_000)
_FASTEST = 5_000_000
"""Frames per second of a sample: about what our machines send."""

_ABOUT = """\
Two network namespaces joined by a veth pair; 60-byte UDP frames in one flow, as fast as each
generator can for about {seconds} s, one core for sending. Frames are counted at the far end.
`bare live frames` is the limit of the method: XDP live frames without content into an XDP program
that only counts. `hawser load` writes headers, checksums, sequence number and timestamp into each
frame, and its meter checks sequence, duplicates and order and measures the delay of each: a sample
in which a frame is not accounted for fails. CPU is of the sending core and includes receiving,
which happens there on a veth pair. `packet` and `udp` are the fallback backends, whose receivers
have the other core; a veth pair hands on the 64 datagrams of a `udp` system call as one, so what
`udp` reaches here it reaches on no other device. iperf3 sends 18-byte UDP payloads. trafgen and
testpmd (driver AF_PACKET) count into the XDP program of the limit. "Rate error" is the largest
deviation of the rate on the wire from the one asked for, over {rates} frames/s."""

_METRICS = (
    Metric("received", "million/s", "received"),
    Metric("lost", "%", "lost"),
    Metric("cpu", "ns/frame", "CPU", 0),
    Metric("rate_error", "%", "rate error", 4),
)


def _trial(program: str, backend: str, rate: object, frames: int) -> dict[str, Any]:
    """Run a trial over a pair of ports and check that every frame is accounted for.

    Raises:
        SampleError: the accounts do not balance.
    """
    with Lab() as lab:
        a, b = lab.pair()
        config = a.directory / "load.json"
        config.write_text(json.dumps(_config(a.name, b.name, backend, rate, frames)))
        result: dict[str, Any] = json.loads(
            a.run([program, "load", "--config", str(config)], timeout=60).splitlines()[-1]
        )
    sent, received = result["sent"], result["received"]
    if sent["frames"] + sent["unsent"] != frames or result["lost"] < 0:
        raise SampleError(f"{frames} frames asked for, {sent['frames']} sent, {sent['unsent']} not")
    if received["duplicated"] or received["late"] or received["foreign"]:
        raise SampleError("the meter found frames that were never sent")
    return result


def _config(a: str, b: str, backend: str, rate: object, frames: int) -> dict[str, Any]:
    stream = {
        "name": "s",
        "ethernet": {"destination": "ff:ff:ff:ff:ff:ff"},
        "source": {"first": "198.18.0.1"},
        "target": {"first": "198.18.0.2"},
        "source_port": {"first": 10000},
        "target_port": {"first": 10500},
        "sizes": {"fixed": 60},
        "rate": rate,
        "amount": {"frames": frames},
    }
    return {
        "version": 1,
        "send": {
            "port": {"interface": "wan0", "netns": a},
            "backend": backend,
            "cpu": CORE,
            "traffic": {"streams": [stream]},
        },
        "receive": {"port": {"interface": "wan0", "netns": b}, "backend": backend},
    }


def _fastest(program: str, backend: str, frames: int) -> Mapping[str, float]:
    result = _trial(program, backend, "max", frames)
    sent, received = result["sent"], result["received"]
    return {
        "received": received["unique"] / received["seconds"] / 1e6,
        "lost": 100 * result["lost"] / sent["frames"],
        "cpu": 1e9 * sent["cpu_s"] / sent["frames"],
    }


def _rate_error(program: str, seconds: int) -> Mapping[str, float]:
    errors = []
    for rate in _RATES:
        result = _trial(program, "xdp", {"frames_per_s": rate}, rate * seconds)
        real = result["sent"]["streams"][0]["frames_per_s"]
        errors.append(100 * abs(real / rate - 1))
    return {"rate_error": max(errors)}


def _bare(effort: Effort) -> Peer:
    live = generators.live_frames()
    frames = _FASTEST * effort.seconds
    return Peer(_BARE, cases={"fastest": partial(generators.bare, live, frames)})


def _hawser(name: str, backend: str, per_second: int, effort: Effort) -> Peer:
    program = hawserd()
    frames = per_second * effort.seconds
    cases: dict[str, Measure] = {"fastest": partial(_fastest, program.path, backend, frames)}
    if backend == "xdp":
        cases["rates"] = partial(_rate_error, program.path, min(effort.seconds, 2))
    return Peer(name, program.version, cases)


def _iperf3(effort: Effort) -> Peer:
    program = from_system("iperf3", "iperf3")
    return Peer(
        "iperf3 UDP",
        program.version,
        {"fastest": partial(generators.iperf3_udp, effort.seconds)},
    )


def _trafgen(effort: Effort) -> Peer:
    program, live = from_system("trafgen", "netsniff-ng"), generators.live_frames()
    case = partial(generators.trafgen, program, live, effort.seconds)
    return Peer("trafgen", program.version, {"fastest": case})


def _testpmd(effort: Effort) -> Peer:
    program, live = from_system("dpdk-testpmd", "dpdk-dev"), generators.live_frames()
    case = partial(generators.testpmd, program, live, effort.seconds)
    return Peer("DPDK testpmd", program.version, {"fastest": case})


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _BARE: _bare,
    _HAWSER: partial(_hawser, _HAWSER, "xdp", _FASTEST),
    "hawser packet": partial(_hawser, "hawser packet", "packet", 500_000),
    "hawser udp": partial(_hawser, "hawser udp", "udp", 1_000_000),
    "iperf3 UDP": _iperf3,
    "trafgen": _trafgen,
    "DPDK testpmd": _testpmd,
}


def _checks(samples: Samples) -> list[Check]:
    share = samples.ratio("received", _HAWSER, _BARE)
    return [
        at_least(f"{_HAWSER} / {_BARE}, at least", share, 0.6),
        at_most(f"{_HAWSER}, lost in %, at most", samples.largest(_HAWSER, "lost"), 0),
        at_most(f"{_HAWSER}, rate error in %, at most", samples.median(_HAWSER, "rate_error"), 0.5),
    ]


def _figures(samples: Samples) -> list[Figure]:
    received = samples.median(_HAWSER, "received")
    return [Figure(name=f"{_HAWSER}, million/s, at least", value=received, aim=4.0)]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    rates = ", ".join(f"{rate:,}".replace(",", " ") for rate in _RATES)
    return Bench(
        name="load",
        title="Load generators on one core",
        about=_ABOUT.format(seconds=effort.seconds, rates=rates),
        metrics=_METRICS,
        peers=peers,
        checks=_checks,
        figures=_figures,
    )


_TOOLS = (("ip", "iproute2"), ("ss", "iproute2"), ("taskset", "util-linux"))

if __name__ == "__main__":
    sys.exit(main(str(__doc__), _TOOLS, _PEERS, _bench))
