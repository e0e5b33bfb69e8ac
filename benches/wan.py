#!/usr/bin/env python3
"""WAN emulators beside each other: how exact a delay is, and how much they carry."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness import flood, wake
from harness.bench import Bench, Measure, Metric, Peer, SampleError
from harness.capture import capture, delays
from harness.cli import Effort, main
from harness.lab import Daemon, Lab, Namespace, until
from harness.obtain import hawserd
from harness.result import Check, Figure, at_most
from harness.samples import Samples
from harness.traffic import iperf_goodput, reachable
from harness.usage import cpu_time
from peers.wan import DEVICE, Emulate, Wan, bare, has_netem, hawser, netem

_BARE, _NETEM, _HAWSER = "bare veth", "netem", "hawserd wan"
_TIMER = "wake-ups of a timer"

_MODERATE_MS, _FAST_MS = 35.0, 13.0
_MODERATE_MBIT = 100.0
_FAST_MBIT = 1250.0
_FALLBACKS_MBIT = (1000.0, 750.0, 500.0, 250.0)
_PACKET = 1400
"""Length of an IP packet, bytes."""
_HEADERS = 28
_DISCARD = 9
"""The discard port (RFC 863)."""
_LATE_US = 1000.0
"""99th percentile of the lateness above which a run with 13 ms of delay is invalid: 1 ms."""
_TCP_WARM_UP_S = 3
"""Slow start to 100 Mbit/s over 70 ms, and the first loss after it."""
_QUEUE = 2 * int(_MODERATE_MBIT * 1e6 / 8 * 2 * _MODERATE_MS / 1e3)
"""Two bandwidth-delay products."""
_FRAME, _SEGMENT = 1514, 1448

_ABOUT = """\
Two network namespaces with an emulator between them, all on this machine, {seconds} s a sample.
Error of delay: iperf3 sends UDP at 100 Mbit/s over 35 ms; tcpdump's kernel time stamps at both ends
give the one-way delay of every packet, and the error is its distance from 35 ms (for bare veth from
0: what the measurement itself adds; for wake-ups of a timer how late a program runs that sleeps for
0.5 ms, which bounds every emulator in user space). Fast: 1400-byte packets at 1250 Mbit/s over 13
ms; loss is what left one end's interface and did not reach the other's; where packets were lost, or
the 99th percentile was over 1 ms late by the emulator's own count, that rate did not hold, and
lower ones are tried. TCP: one stream over 35 ms each way, shaped by HTB to 100 Mbit/s at the
sender, as bytes of Ethernet frames a second. CPU: of the emulator at 1250 Mbit/s, in percent of one
core."""

_METRICS = (
    Metric("delay_error_p50", "us", "error of delay, median", 0),
    Metric("delay_error_p99", "us", "error of delay, p99", 0),
    Metric("fast_loss", "%", "loss at 1250 Mbit/s", 4),
    Metric("fast_lateness_p99", "us", "lateness at 1250 Mbit/s, p99", 0),
    Metric("rate_held", "Mbit/s", "highest rate held", 0),
    Metric("cpu", "%", "CPU", 0),
    Metric("tcp_rate", "Mbit/s", "TCP"),
)


def _moderate(emulate: Emulate, effort: Effort, delay_ms: float) -> Mapping[str, float]:
    """Error of the delay at 100 Mbit/s."""
    with Lab() as lab:
        wan = emulate(lab, delay_ms)
        files = (wan.a.directory / "sent.pcap", wan.b.directory / "received.pcap")
        captures = [
            capture(end, DEVICE, file) for end, file in zip((wan.a, wan.b), files, strict=True)
        ]
        _send(wan, _MODERATE_MBIT, effort.seconds).wait(effort.seconds + 20)
        for each in captures:
            each.stop()
        errors = sorted(abs(delay - delay_ms * 1000) for delay in delays(*files))
    return {"delay_error_p50": _quantile(errors, 0.5), "delay_error_p99": _quantile(errors, 0.99)}


def _fast(emulate: Emulate, effort: Effort) -> Mapping[str, float]:
    """Throughput: 1250 Mbit/s, or the highest lower rate without excess loss."""
    first = _carried(emulate, effort, _FAST_MBIT)
    held = _FAST_MBIT if _holds(first) else 0.0
    for rate in _FALLBACKS_MBIT:
        if not held and _holds(_carried(emulate, effort, rate)):
            held = rate
    return {**first, "rate_held": held}


def _holds(found: Mapping[str, float]) -> bool:
    return found["fast_loss"] == 0 and found.get("fast_lateness_p99", 0) <= _LATE_US


def _carried(emulate: Emulate, effort: Effort, rate: float) -> dict[str, float]:
    with Lab() as lab:
        wan = emulate(lab, _FAST_MS)
        pids = [wan.daemon.pid] if wan.daemon else []
        _sink(wan)
        until(lambda: reachable(wan.a, wan.address), "neighbours know each other")
        time.sleep(0.2)  # what the set-up sent has arrived
        sent, received = _count(wan.a, "tx"), _count(wan.b, "rx")
        before, start = cpu_time(pids), time.monotonic()
        offered = int(_flood(wan, rate, effort.seconds).wait(effort.seconds + 20))
        used, passed = cpu_time(pids) - before, time.monotonic() - start
        time.sleep(0.5)  # what is still under way arrives
        sent, received = _count(wan.a, "tx") - sent, _count(wan.b, "rx") - received
        counters = wan.counters()
    if not passed < effort.seconds * 1.1 or sent < offered:
        took = f"{sent} of {offered} packets in {passed:.1f} s"
        raise SampleError(f"the generator sent {took}, too few for {rate:g} Mbit/s")
    values = {"fast_loss": 100 * (sent - received) / sent}
    if counters is not None:
        forward = next(path for path in counters["paths"] if path["name"] == "forward")
        values["fast_lateness_p99"] = forward["lateness_us"]["p99"]
        values["cpu"] = 100 * used.processes / passed
    return values


def _tcp(emulate: Emulate, effort: Effort) -> Mapping[str, float]:
    with Lab() as lab:
        wan = emulate(lab, _MODERATE_MS)
        _shape(wan.a)
        _listen(wan)
        times = ["--time", str(effort.seconds), "--omit", str(_TCP_WARM_UP_S)]
        client = wan.a.start(["iperf3", "--client", wan.address, "--json", *times])
        goodput = iperf_goodput(client.wait(effort.seconds + _TCP_WARM_UP_S + 20))
    return {"tcp_rate": goodput * 1000 * _FRAME / _SEGMENT}


def _shape(end: Namespace) -> None:
    """HTB and a queue in bytes at a sender, in front of the emulator."""
    rate = f"{_MODERATE_MBIT:g}mbit"
    for command in (
        ["qdisc", "add", "dev", DEVICE, "root", "handle", "1:", "htb", "default", "1"],
        ["class", "add", "dev", DEVICE, "parent", "1:", "classid", "1:1", "htb", "rate", rate],
        ["qdisc", "add", "dev", DEVICE, "parent", "1:1", "bfifo", "limit", str(_QUEUE)],
    ):
        end.run(["tc", *command])


def _send(wan: Wan, mbit: float, seconds: int) -> Daemon:
    """Send UDP packets of 1400 bytes; the rate counts these bytes."""
    _listen(wan)
    payload = _PACKET - _HEADERS
    rate = f"{mbit * 1e6 * payload / _PACKET:.0f}"
    options = ["--length", str(payload), "--bitrate", rate, "--time", str(seconds), "--json"]
    return wan.a.start(["iperf3", "--client", wan.address, "--udp", *options])


def _flood(wan: Wan, mbit: float, seconds: int) -> Daemon:
    """Send UDP packets of 1400 bytes; the rate counts these bytes.

    The generator must not be what gives in: it goes before all but the emulator.
    """
    numbers = (_DISCARD, _PACKET - _HEADERS, mbit * 1e6 / 8 / _PACKET, seconds)
    command = [sys.executable, flood.__file__, wan.address, *map(str, numbers)]
    return wan.a.start(["nice", "--20", *command])


def _sink(wan: Wan) -> None:
    """Receive packets without reading them; the interface counts them."""
    text = (
        f"import socket, time; s = socket.socket(type=2); s.bind(('', {_DISCARD})); time.sleep(60)"
    )
    wan.b.start([sys.executable, "-c", text])
    until(lambda: "UNCONN" in wan.b.run(["ss", "-uln", f"sport = :{_DISCARD}"]), "the sink listens")


def _listen(wan: Wan) -> None:
    wan.b.start(["iperf3", "--server", "--one-off", "--bind", wan.address])
    until(lambda: "LISTEN" in wan.b.run(["ss", "-tln", "sport = :5201"]), "iperf3 listens")


def _count(end: Namespace, way: str) -> int:
    """Packets of the end's interface."""
    statistics = json.loads(end.ip("-j", "-s", "link", "show", "dev", DEVICE))[0]["stats64"]
    return int(statistics[way]["packets"])


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cases(emulate: Emulate, effort: Effort) -> dict[str, Measure]:
    return {
        "100 Mbit/s, 35 ms": partial(_moderate, emulate, effort, _MODERATE_MS),
        "1250 Mbit/s, 13 ms": partial(_fast, emulate, effort),
        "TCP": partial(_tcp, emulate, effort),
    }


def _wake_ups(effort: Effort) -> Mapping[str, float]:
    """How late the machine wakes a program that goes before others, as the emulator does."""
    command = ["nice", "--20", sys.executable, wake.__file__, str(effort.seconds)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=effort.seconds + 20, check=True
    )
    median, p99 = map(float, done.stdout.split())
    return {"delay_error_p50": median, "delay_error_p99": p99}


def _timer(effort: Effort) -> Peer:
    return Peer(_TIMER, cases={"0.5 ms": partial(_wake_ups, effort)})


def _bare(effort: Effort) -> Peer:
    return Peer(_BARE, cases={"100 Mbit/s": partial(_moderate, bare, effort, 0.0)})


def _netem(effort: Effort) -> Peer:
    has_netem()
    return Peer(_NETEM, cases=_cases(netem, effort))


def _hawser(effort: Effort) -> Peer:
    program = hawserd()
    return Peer(_HAWSER, program.version, _cases(hawser(program.path), effort))


_PEERS: Mapping[str, Callable[[Effort], Peer]] = {
    _TIMER: _timer,
    _BARE: _bare,
    _NETEM: _netem,
    _HAWSER: _hawser,
}


def _checks(samples: Samples) -> list[Check]:
    rate = samples.median(_HAWSER, "tcp_rate")
    deviation = None if rate is None else abs(rate / _MODERATE_MBIT - 1)
    return [
        *(
            at_most(
                f"error of delay / lateness of a timer, {name}, at most",
                samples.ratio(f"delay_error_{quantile}", _HAWSER, _TIMER),
                4,
            )
            for name, quantile in (("median", "p50"), ("p99", "p99"))
        ),
        at_most("TCP, deviation from 100 Mbit/s, at most", deviation, 0.05),
    ]


def _figures(samples: Samples) -> list[Figure]:
    return [
        Figure(name=name, value=samples.median(_HAWSER, metric), aim=aim)
        for name, metric, aim in (
            ("error of delay in us, median, at most", "delay_error_p50", 50),
            ("error of delay in us, p99, at most", "delay_error_p99", 500),
            ("rate held in Mbit/s, at least", "rate_held", _FAST_MBIT),
            ("loss at 1250 Mbit/s in %, at most", "fast_loss", 0),
        )
    ]


def _bench(effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="wan",
        title="WAN emulation",
        about=_ABOUT.format(seconds=effort.seconds),
        metrics=_METRICS,
        peers=peers,
        checks=_checks,
        figures=_figures,
    )


_TOOLS = (
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("ss", "iproute2"),
    ("iperf3", "iperf3"),
    ("tcpdump", "tcpdump"),
)

if __name__ == "__main__":
    sys.exit(main(str(__doc__), _TOOLS, _PEERS, _bench))
