"""A lab whose tightest link has a known rate, load and bucket, to estimate its bandwidth for real.

h1 --x-- fw ==y== r --v-- h2      trains go from h1 to h2
         |        |
h3 --z---+        +---w-- h4      other traffic from h3 to h4; both share link y
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hawser.driver.local import LocalDriver, LocalLab
from hawser.node.netns import htb
from hawser.overlay.config.load import (
    Addresses,
    Ethernet,
    FixedSize,
    FrameRate,
    LoadConfig,
    Port,
    Ports,
    Seconds,
    Send,
    Stream,
    Streams,
)
from hawser.overlay.lab import network
from hawser.probe.bandwidth.probe import BandwidthProbe
from hawser.probe.base import Context
from hawser.probe.load.port import sending_port
from hawser.spec import load
from hawser.spec.measurement import Bandwidth

_WORKFLOW = """\
hawser: 1
name: bandwidth
title: Available bandwidth of a known link
topology:
  nodes: {{h1: {{}}, h3: {{}}, fw: {{}}, r: {{}}, h2: {{}}, h4: {{}}}}
  links:
    x: {{ends: [h1.x, fw.x]}}
    z: {{ends: [h3.z, fw.z]}}
    y: {{ends: [fw.y, r.y], rate: {rate:.6f} Mbit/s, queue: {queue} B, delay: 3 ms}}
    v: {{ends: [r.v, h2.v]}}
    w: {{ends: [r.w, h4.w]}}
measurements:
  m: {{probe: bandwidth, from: h1, to: h2, port: {port:.6f} Mbit/s, share: {share:.4f} %,
       duration: {seconds} s}}
"""
TRUTH = "truth"
_BURSTS = ((1514, 1), (600, 4), (1514, 12))
"""Frame sizes of other traffic, and how many frames come at once; each has a third of the load."""


@dataclass(frozen=True)
class Link:
    """The tightest link."""

    rate: float
    """bit/s of frames."""
    load: float
    """Share that other traffic takes."""
    bucket_s: float
    """Size of the shaper's bucket, seconds at the rate."""
    port: float
    """Declared rate of the sending port, bit/s."""
    queue_s: float = 0.1
    """Length of its queue, seconds at the rate."""


Beside = Callable[[LocalLab], contextlib.AbstractContextManager[None]]


def estimated(
    name: str,
    link: Link,
    raw: Path,
    seconds: float,
    share: float,
    beside: Beside = lambda _: contextlib.nullcontext(),
) -> dict[str, float]:
    """Measure a link in a lab of its own.

    Args:
        name: of the lab.
        link: what is known of it.
        raw: folder for what the probe keeps.
        seconds: duration of the measurement.
        share: of the port's bits during that time that trains may take.
        beside: what happens in the lab meanwhile.

    Returns:
        The probe's values by metric; and `TRUTH`, what other traffic left, Mbit/s.

    Raises:
        ProbeError: the probe found no path.
    """
    text = _WORKFLOW.format(
        rate=link.rate / 1e6,
        queue=max(3000, round(link.queue_s * link.rate / 8)),
        port=link.port / 1e6,
        share=100 * share,
        seconds=seconds,
    )
    scenario = load("bandwidth.yaml", lambda _: text.encode(), ()).variants[0].scenario
    measurement, driver = scenario.measurements["m"], LocalDriver()
    if not isinstance(measurement, Bandwidth):
        raise TypeError("the workflow measures something else")
    lab = driver.deploy(name, network(scenario, driver.facts()))
    with contextlib.ExitStack() as stack:
        stack.callback(lab.destroy)
        if link.bucket_s:
            _deepen_bucket(lab, link)
        with _other_traffic(lab, link, seconds + 5), beside(lab):
            context = Context(lab, "m", raw, lambda: None)
            began, before = time.monotonic(), _sent_bits(lab)
            found = BandwidthProbe(measurement).measure(context)
            others = (_sent_bits(lab) - before) / (time.monotonic() - began)
    return {**{each.metric: each.value for each in found}, TRUTH: (link.rate - others) / 1e6}


def _sent_bits(lab: LocalLab) -> float:
    """Bits of other traffic that h3 has really sent: a busy machine may keep it from some."""
    return 8.0 * lab.nodes["h3"].counters()["z"]["tx_bytes"]


def _deepen_bucket(lab: LocalLab, link: Link) -> None:
    """Give the shaper of link y a deeper bucket."""
    rate = f"{round(link.rate)}bit"
    size = f"{max(htb.burst(round(link.rate / 8)), round(link.bucket_s * link.rate / 8))}"
    change = ["tc", "class", "change", "dev", "y"]
    both = ["burst", size, "cburst", size]
    fw = lab.nodes["fw"]
    fw.run([*change, "parent", "1:", "classid", "1:1", "htb", "rate", rate, *both], timeout=10)
    leaf = ["htb", "rate", "1kbit", "ceil", rate, "burst", "3028", "cburst", size]
    fw.run([*change, "parent", "1:1", "classid", "1:10", *leaf], timeout=10)


@contextlib.contextmanager
def _other_traffic(lab: LocalLab, link: Link, seconds: float) -> Iterator[None]:
    """Load link y from h3 to h4."""
    if not link.load:
        yield
        return
    source, target = (lab.plan.addresses[node] for node in ("h3", "h4"))
    node = lab.nodes["h3"]
    port = sending_port(node, source, target)
    streams = tuple(
        Stream(
            name=f"s{number}",
            ethernet=Ethernet(destination=port.next_hop),
            source=Addresses(first=source),
            target=Addresses(first=target),
            source_port=Ports(first=20_000 + number),
            target_port=Ports(first=9),
            sizes=FixedSize(fixed=size),
            rate=FrameRate(frames_per_s=link.load * link.rate / (8 * size * len(_BURSTS))),
            burst=burst,
            amount=Seconds(seconds=math.ceil(seconds)),
        )
        for number, (size, burst) in enumerate(_BURSTS)
    )
    send = Send(
        port=Port(interface=port.interface),
        backend="packet",
        catch_up_us=1_000_000,
        traffic=Streams(streams=streams),
    )
    file = node.directory / "other-traffic.json"
    node.put(file, LoadConfig(send=send).model_dump_json().encode())
    process = node.start([str(lab.hawserd), "load", "--config", str(file)])
    try:
        yield
    finally:
        process.stop()
