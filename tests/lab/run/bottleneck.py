"""A lab in which a chosen element limits a measurement, and what the evidence of it says.

   h1                     fw                                  h2
  +---------------+      +--------------------------------+      +----------------+
  | x 10.255.0.1  |--x---| x 10.255.0.2      y 10.255.0.5 |--y---| y 10.255.0.6   |
  +---------------+      +--------------------------------+      +----------------+

Links carry 400 Mbit/s with queues of 300 kB unless a test changes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hawser.driver.local import LocalDriver, LocalLab
from hawser.overlay.lab import network
from hawser.probe.base import Context, Probe
from hawser.probe.evidence import EvidenceRecorder, counted
from hawser.probe.iperf3 import Iperf3Probe
from hawser.report.evidence import gather, ways
from hawser.spec import load
from hawser.spec.measurement import Iperf3
from hawser.spec.workflow import Scenario
from hawser.stats.bottleneck import Diagnosis, find
from hawser.store.sample import Sample
from lab import PROGRAMS
from lab.traffic.nodes import ping
from lab.waiting import until

FUNCTION = PROGRAMS / "slow_function.py"
GENERATOR = PROGRAMS / "slow_generator.py"
PACED = PROGRAMS / "paced_tcp.py"

WORKFLOW = """\
hawser: 1
name: bottleneck
title: One of these limits
topology:
  nodes:
    h1: {}
    fw: {}
    h2: {}
  links:
    x: {ends: [h1.x, fw.x], rate: 400 Mbit/s, queue: 300 kB}
    y: {ends: [fw.y, h2.y], rate: 400 Mbit/s, queue: 300 kB}
measurements:
  m: {probe: iperf3, from: h1, to: h2, duration: 2 s, warmup: 0 s}
"""

TCP = ("measurements.m.congestion=cubic",)
SLOW_LINK = ("topology.links.y.rate=20 Mbit/s", "topology.links.y.queue=60 kB")
FAR = ("topology.links.y.delay=5 ms",)


def udp(rate: str, length: str = "1400 B") -> tuple[str, ...]:
    return (
        "measurements.m.protocol=udp",
        f"measurements.m.rate={rate}",
        f"measurements.m.length={length}",
    )


def scenario(*overrides: str) -> Scenario:
    return load("x.yaml", lambda _: WORKFLOW.encode(), overrides).variants[0].scenario


@contextmanager
def policer(lab: LocalLab, hook: str, limit: str) -> Iterator[None]:
    """A policer on fw, in the kernel."""
    fw = lab.nodes["fw"]
    fw.run(["nft", "add", "table", "ip", "t"], timeout=60)
    chain = f"{{ type filter hook {hook} priority -300; }}"
    fw.run(["nft", "add", "chain", "ip", "t", "c", chain], timeout=60)
    rule = ["ip", "daddr", "10.255.0.6", "limit", "rate", "over", *limit.split(), "drop"]
    fw.run(["nft", "add", "rule", "ip", "t", "c", *rule], timeout=60)
    yield


@contextmanager
def function(lab: LocalLab, microseconds: int) -> Iterator[None]:
    """Packets pass through a program on fw that takes this time for each."""
    fw = lab.nodes["fw"]
    # so that all neighbours are resolved
    until(lambda: ping(lab.nodes["h1"], "10.255.0.6"), "h1 reaches h2")
    fw.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], timeout=60)
    own = ("10.255.0.2", "10.255.0.5")
    log = lab.directory / "function.log"
    command = [sys.executable, "-S", "-E", str(FUNCTION), "x", "y", str(microseconds), *own]
    process = fw.start(command, log=log)
    try:
        until(lambda: "ready" in log.read_text())
        yield
    finally:
        process.stop()


@contextmanager
def full_reverse(lab: LocalLab) -> Iterator[None]:
    """Other traffic fills the direction from h2 to h1."""
    h1, h2 = lab.nodes["h1"], lab.nodes["h2"]
    server = h1.start(["iperf3", "-s", "-p", "5999"])
    until(lambda: "5999" in h1.run(["ss", "-Hltn"], timeout=60).stdout)
    options = ["-p", "5999", "-u", "-b", "24M", "-l", "1400", "-t", "60"]
    client = h2.start(["iperf3", "-c", "10.255.0.1", *options])
    try:
        yield
    finally:
        client.stop()
        server.stop()


class SlowGenerator:
    """Measures nothing, but sends."""

    def measure(self, context: Context) -> list[Sample]:
        context.started()
        command = [sys.executable, "-S", "-E", str(GENERATOR), "10.255.0.6", "2", "500"]
        context.lab.nodes["h1"].run(command, timeout=60)
        return []

    def seconds(self) -> float:
        return 2.0


@contextmanager
def slow_generator(lab: LocalLab) -> Iterator[None]:
    """Stands for a `SlowGenerator` in the place of iperf3."""
    yield


@dataclass(frozen=True)
class PacedTransfer:
    """Measures nothing, but sends over TCP, and pauses after each piece at either end."""

    sent: tuple[int, float]
    """Bytes of a piece, and the pause after it in seconds."""
    received: tuple[int, float]

    def measure(self, context: Context) -> list[Sample]:
        h1, h2 = context.lab.nodes["h1"], context.lab.nodes["h2"]
        python = [sys.executable, "-S", "-E", str(PACED)]
        receiver = h2.start([*python, "receive", "5998", "2.5", *map(str, self.received)])
        try:
            until(lambda: "5998" in h2.run(["ss", "-Hltn"], timeout=60).stdout)
            context.started()
            sender = [*python, "send", "10.255.0.6", "5998", "2", *map(str, self.sent)]
            h1.run(sender, timeout=60)
        finally:
            receiver.stop()
        return []

    def seconds(self) -> float:
        return 2.0


@contextmanager
def slow_reader(lab: LocalLab) -> Iterator[None]:
    """Stands for a receiver that takes 2 kB every 10 ms, while the sender never pauses."""
    yield


@contextmanager
def slow_writer(lab: LocalLab) -> Iterator[None]:
    """Stands for a sender that has 20 kB every 50 ms, while the receiver never pauses."""
    yield


Setup = Callable[[LocalLab], Any]


STAND_INS: dict[Setup, Probe] = {
    slow_generator: SlowGenerator(),
    slow_reader: PacedTransfer((60_000, 0), (2_000, 0.01)),
    slow_writer: PacedTransfer((20_000, 0.05), (60_000, 0)),
}
"""What is measured instead of iperf3."""


def measured(
    driver: LocalDriver, name: str, raw: Path, about: Scenario, *setups: Setup
) -> tuple[Iperf3, tuple[Sample, ...], float | None]:
    """Deploy and measure; return the measurement, its evidence, and its goodput, Mbit/s."""
    measurement = about.measurements["m"]
    assert isinstance(measurement, Iperf3)
    lab = driver.deploy(name, network(about, driver.facts()))
    with ExitStack() as stack:
        stack.callback(lab.destroy)
        for setup in setups:
            stack.enter_context(setup(lab))
        probe = next((STAND_INS[s] for s in setups if s in STAND_INS), Iperf3Probe(measurement))
        with EvidenceRecorder(lab, "m", ("h1", "h2"), counted(measurement)) as evidence:
            found = probe.measure(Context(lab, "m", raw, evidence.begin))
            samples = evidence.finish()
    (raw / "evidence.jsonl").write_text("\n".join(s.model_dump_json() for s in samples))
    summaries = [s.value for s in found if (s.kind, s.metric) == ("summary", "goodput")]
    return measurement, samples, next(iter(summaries), None)


def judged(driver: LocalDriver, name: str, raw: Path, about: Scenario, *setups: Setup) -> Diagnosis:
    """Deploy, measure, and find the bottleneck."""
    measurement, samples, goodput = measured(driver, name, raw, about, *setups)
    return find(gather(samples, measurement, ways(about, measurement), goodput))


REVERSE = ("measurements.m.reverse=true",)
LIMITED: dict[str, tuple[str, str, tuple[str, ...], tuple[Setup, ...]]] = {
    # the kind and the element that limits, changes to the workflow, and what is set up in the lab
    "link rate, TCP": ("rate", "link:y:forward", (*TCP, *SLOW_LINK), ()),
    "link rate, UDP backwards": (
        "rate",
        "link:y:reverse",
        (*udp("60 Mbit/s"), *SLOW_LINK, *REVERSE),
        (),
    ),
    "queue too short, bursts of UDP": (
        "queue",
        "link:y:forward",
        (
            *udp("20 Mbit/s", "8 kB"),
            "measurements.m.streams=4",
            "topology.links.y.rate=100 Mbit/s",
            "topology.links.y.queue=9 kB",
        ),
        (),
    ),
    "queue too short, TCP": (
        "queue",
        "link:y:forward",
        (*TCP, "topology.links.y.rate=200 Mbit/s", "topology.links.y.queue=3 kB"),
        (),
    ),
    "function without processor time": (
        "function",
        "fw",
        (*TCP, "topology.nodes.fw.cpu=0.05"),
        (lambda lab: function(lab, 0),),
    ),
    "function that works all the time": (
        "function",
        "fw",
        TCP,
        (lambda lab: function(lab, 1000),),
    ),
    "policer, UDP": (
        "filter",
        "fw",
        udp("40 Mbit/s"),
        (lambda lab: policer(lab, "forward", "1000 kbytes/second"),),
    ),
    "policer, TCP": (
        "filter",
        "fw",
        TCP,
        (lambda lab: policer(lab, "prerouting", "2000 kbytes/second burst 20 kbytes"),),
    ),
    "generator without processor time": (
        "generator",
        "h1",
        (*TCP, "topology.nodes.h1.cpu=0.03"),
        (),
    ),
    "generator that works all the time": (
        "generator",
        "h1",
        (),
        (slow_generator,),
    ),
    "receiver without processor time": (
        "receiver",
        "h2",
        (*TCP, "topology.nodes.h2.cpu=0.02"),
        (),
    ),
    "receiver with a small window": (
        "window",
        "h2",
        (*TCP, *FAR, "topology.nodes.h2.sysctl={net.ipv4.tcp_rmem: 4096 16384 16384}"),
        (),
    ),
    "receiver that reads slowly": ("receiver", "h2", TCP, (slow_reader,)),
    "sender that has little to send": ("generator", "h1", TCP, (slow_writer,)),
}
SEVERAL: dict[str, tuple[set[tuple[str, str]], tuple[str, ...], tuple[Setup, ...]]] = {
    # kinds and elements that limit, each by itself
    "two links, the second half as fast as the first": (
        {("rate", "link:x:forward"), ("rate", "link:y:forward")},
        (
            *udp("80 Mbit/s"),
            *SLOW_LINK,
            "topology.links.x.rate=40 Mbit/s",
            "topology.links.x.queue=60 kB",
        ),
        (),
    ),
}
FREE: dict[str, tuple[tuple[str, ...], tuple[Setup, ...]]] = {
    # where only the offered load limits
    "UDP at a quarter of the rate": ((*udp("5 Mbit/s"), *SLOW_LINK), ()),
    "TCP at a quarter of the rate": (
        (*TCP, *SLOW_LINK, "measurements.m.rate=5 Mbit/s", "measurements.m.length=4 kB"),
        (),
    ),
    "TCP beside other traffic that fills the direction of its acknowledgements": (
        (
            *TCP,
            "measurements.m.rate=2 Mbit/s",
            "measurements.m.length=4 kB",
            "topology.links.y.reverse={rate: 20 Mbit/s, queue: 15 kB}",
        ),
        (full_reverse,),
    ),
    "a function with little to do": (udp("2 Mbit/s"), (lambda lab: function(lab, 20),)),
    "a policer that nothing exceeds, and processor time enough": (
        (*udp("4 Mbit/s"), *(f"topology.nodes.{name}.cpu=0.5" for name in ("h1", "fw", "h2"))),
        (lambda lab: policer(lab, "forward", "2000 kbytes/second burst 500 kbytes"),),
    ),
}
