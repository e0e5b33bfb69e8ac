#!/usr/bin/env python3
"""Forwarders beside each other: a gateway's switch, kernel IP forwarding, Open vSwitch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness import blast
from harness.bench import Bench, Measure, Metric, Peer
from harness.cli import Effort, main
from harness.lab import Lab, Namespace, until
from harness.obtain import from_system, hawserd
from harness.result import Check, Figure, at_least, at_most
from harness.samples import Samples
from harness.traffic import iperf_goodput
from peers.forward import LABEL, Forward, Way, cores, hawser, kernel, open_vswitch

_KERNEL, _BPF, _FULL, _OVS = (
    "kernel IP forwarding",
    "hawser bpf",
    "hawser bpf, full table",
    "Open vSwitch, userspace",
)
_TABLE = 15 * 16 * 16 * 2
"""Number of entries: 15 branches, 16 groups, 16 paths, both directions."""
_START = 0.5
"""Time that the sender may take to start, seconds: the last replacement is before it ends."""
_PAYLOAD = 18
"""UDP payload of a 60-byte frame, bytes."""

_ABOUT = """\
Three network namespaces in a row on one machine, joined by veth; the one in the middle forwards.
Packets: 60-byte frames of UDP, sent for {seconds} s as fast as one core can while forwarder and
sink run on the same core; the rate is what arrives at the sink's interface. TCP: one iperf3 stream
with segmentation offload, client and server on a core each, {seconds} s after one that does not
count. hawser rewrites addresses by the path label and sends to a neighbour; its table holds two
entries, or {table} more. For one more sample that table is replaced by others that do the same, one
after the other, while packets are sent. Open vSwitch: the same two entries on the userspace
datapath."""

METRICS = (
    Metric("packets", "Mpps", "60-byte frames"),
    Metric("loss", "%", "of them lost"),
    Metric("goodput", "Gbit/s", "TCP, 1 stream"),
    Metric("load", "s", "full table in force after", 3),
    Metric("replaced", "times", "it was replaced under traffic", 0),
    Metric("missing", "packets", "lost meanwhile", 0),
)


def _packets(forward: Forward, effort: Effort) -> Mapping[str, float]:
    with Lab() as lab:
        way = forward(lab)
        sent, took, received = _blast(way, effort, lambda: None)
    values = {"packets": received / took / 1e6, "loss": 100 * max(0.0, sent - received) / sent}
    return values if way.loaded is None else {**values, "load": way.loaded}


def _replaced(forward: Forward, effort: Effort) -> Mapping[str, float]:
    """Replace the whole table repeatedly while one core sends packets at its maximum rate."""
    turns = 0
    with Lab() as lab:
        way = forward(lab)

        def replace() -> None:
            nonlocal turns
            end = time.monotonic() + effort.seconds - _START
            while way.replace is not None and time.monotonic() < end:
                way.replace()
                turns += 1

        sent, _, received = _blast(way, effort, replace)
    return {"replaced": turns, "missing": sent - received}


def _blast(way: Way, effort: Effort, meanwhile: Callable[[], None]) -> tuple[float, float, float]:
    """Send packets during an action. Give the number sent, the time, and the number received."""
    _sink(way)
    way.client.run(["ethtool", "-K", "wan0", "tx-udp-segmentation", "off"])
    _reach(way)
    before = _received(way.server)
    command = [sys.executable, blast.__file__, way.address, str(LABEL), str(_PAYLOAD)]
    running = way.client.start(["taskset", "-c", "0", *command, str(effort.seconds)])
    meanwhile()
    said = running.wait(effort.seconds + 20)
    time.sleep(0.3)  # what is under way arrives
    sent, took = (float(word) for word in said.split())
    return sent, took, _received(way.server) - before


def _sink(way: Way) -> None:
    """Receive packets without reading them; the interface counts them."""
    text = f"import socket, time; s = socket.socket(type=2); s.bind(('', {LABEL})); time.sleep(99)"
    way.server.start([sys.executable, "-c", text])
    until(lambda: "UNCONN" in way.server.run(["ss", "-uln", f"sport = :{LABEL}"]), "the sink")


def _reach(way: Way) -> None:
    """Send until something arrives, so that neighbours are resolved."""
    text = f"import socket; socket.socket(type=2).sendto(b'', ('{way.address}', {LABEL}))"

    def arrives() -> bool:
        before = _received(way.server)
        way.client.run([sys.executable, "-c", text])
        time.sleep(0.05)
        return _received(way.server) > before

    until(arrives, "packets arrive")


def _received(end: Namespace) -> int:
    shown = json.loads(end.ip("-j", "-s", "link", "show", "dev", "wan1"))
    return int(shown[0]["stats64"]["rx"]["packets"])


def _tcp(forward: Forward, effort: Effort) -> Mapping[str, float]:
    with Lab() as lab:
        way = forward(lab)
        last = str(cores() - 1)
        port = ["--port", str(LABEL)]
        way.server.start(["taskset", "-c", last, "iperf3", "--server", "--one-off", *port])
        until(lambda: "LISTEN" in way.server.run(["ss", "-tln", f"sport = :{LABEL}"]), "iperf3")
        options = ["--time", str(effort.seconds), "--omit", "1", "--json"]
        client = ["taskset", "-c", "0", "iperf3", "--client", way.address, *port, *options]
        return {"goodput": iperf_goodput(way.client.start(client).wait(effort.seconds + 20))}


def cases(forward: Forward, effort: Effort) -> dict[str, Measure]:
    """What is measured of each forwarder."""
    return {
        "packets": partial(_packets, forward, effort),
        "TCP": partial(_tcp, forward, effort),
    }


def _kernel(effort: Effort) -> Peer:
    return Peer(_KERNEL, cases=cases(kernel, effort))


def _hawser(name: str, others: int, effort: Effort) -> Peer:
    program = hawserd()
    forward = hawser(program.path, others)
    measures = cases(forward, effort)
    if others:
        measures["replacement"] = partial(_replaced, forward, effort)
    return Peer(name, program.version, measures)


def _open_vswitch(effort: Effort) -> Peer:
    program = from_system("ovs-vswitchd", "openvswitch-switch")
    return Peer(_OVS, program.version, cases(open_vswitch, effort))


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _KERNEL: _kernel,
    _BPF: partial(_hawser, _BPF, 0),
    _FULL: partial(_hawser, _FULL, _TABLE),
    _OVS: _open_vswitch,
}


def _checks(samples: Samples) -> list[Check]:
    def ratio(metric: str, peer: str, other: str, limit: float) -> Check:
        found = samples.ratio(metric, peer, other)
        return at_least(f"{peer} / {other}, {metric}, at least", found, limit)

    return [
        ratio("goodput", _BPF, _KERNEL, 0.9),
        ratio("packets", _BPF, _KERNEL, 0.8),
        ratio("goodput", _FULL, _KERNEL, 0.9),
        ratio("packets", _FULL, _KERNEL, 0.8),
        ratio("packets", _BPF, _OVS, 4.0),
        at_most(
            "packets lost while it is replaced, at most", samples.largest(_FULL, "missing"), 0.0
        ),
    ]


def _figures(samples: Samples) -> list[Figure]:
    seconds = samples.largest(_FULL, "load")
    return [Figure(name="full table in force after s, at most", value=seconds, aim=1.0)]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="switch",
        title="Forwarding in transit",
        about=_ABOUT.format(seconds=effort.seconds, table=_TABLE),
        metrics=METRICS,
        peers=peers,
        checks=_checks,
        figures=_figures,
    )


_TOOLS = (
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("iperf3", "iperf3"),
    ("ethtool", "ethtool"),
    ("taskset", "util-linux"),
)

if __name__ == "__main__":
    sys.exit(main(str(__doc__), _TOOLS, _PEERS, _bench))
