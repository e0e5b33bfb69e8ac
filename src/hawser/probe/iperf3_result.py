"""iperf3's JSON reports as samples.

Counts of received data are taken from the receiver's own report only. The sender's copy of it is
wrong where a warm-up is omitted: iperf 3.12 subtracts the sender's own count of the warm-up from
the receiver's (76 % loss shown where 51 % was lost).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hawser.probe.base import ProbeError
from hawser.spec.measurement import Iperf3, Protocol
from hawser.store.sample import Direction, Sample

Report = Mapping[str, Any]
"""One end's JSON document."""

_SLACK_BYTES = 8_000_000
"""What a stream's receiver may count above its sender: what was sent in the warm-up and stood in
sockets (4 MB by the kernel's default), gateways and queues when it ended."""


@dataclass(frozen=True)
class Result:
    """Both ends' reports of one test."""

    sender: Report
    receiver: Report


def parse(end: str, text: str) -> Report:
    """Read one end's report.

    Raises:
        ProbeError: it is cut off, or says that the test failed.
    """
    try:
        report = json.loads(text)
    except ValueError as error:
        raise ProbeError(
            f"iperf3's {end} left no readable result: {text.strip()[-200:]!r}"
        ) from error
    if not isinstance(report, dict):
        raise ProbeError(f"iperf3's {end} left no readable result: {text.strip()[-200:]!r}")
    if "error" in report:
        raise ProbeError(f"iperf3's {end}: {report['error']}")
    return report


def pair(spec: Iperf3, client: Report, server: Report, *, disrupted: bool = False) -> Result:
    """Say which end sent, and check that both report the same complete test.

    Raises:
        ProbeError: they do not, or nothing arrived though the path was not `disrupted` on purpose.
    """
    try:
        if client["start"]["cookie"] != server["start"]["cookie"]:
            raise ProbeError("iperf3's server served another client")
        result = Result(server, client) if spec.reverse else Result(client, server)
        _check(spec, result)
        if not disrupted and not result.receiver["end"]["sum_received"]["bytes"]:
            raise ProbeError("iperf3 received nothing")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProbeError(f"iperf3's result lacks {error}") from error
    return result


def _check(spec: Iperf3, result: Result) -> None:
    received = result.receiver["end"]["sum_received"]
    streams = len(result.receiver["end"]["streams"])
    if streams != spec.streams:
        raise ProbeError(f"iperf3 ended with {streams} streams instead of {spec.streams}")
    if received["seconds"] < 0.9 * spec.duration:
        raise ProbeError(
            f"iperf3 measured only {received['seconds']:.1f} s of {float(spec.duration):g} s"
        )
    sent = _total(spec, result.sender, "sum_sent", "bytes")
    got = _total(spec, result.receiver, "sum_received", "bytes")
    if sent is not None and got is not None and got > sent + _SLACK_BYTES * spec.streams:
        raise ProbeError(f"iperf3 counted {got} B received but only {sent} B sent")
    if spec.protocol is Protocol.UDP and not 0 <= received["lost_packets"] <= received["packets"]:
        raise ProbeError(
            f"iperf3 counted {received['lost_packets']} lost of {received['packets']} datagrams"
        )


def _total(spec: Iperf3, report: Report, side: str, count: str) -> int | None:
    """A count over the whole test: what was omitted as warm-up, and the rest.

    None where the warm-up is not told whole: iperf 3.12 loses its last interval when the timers of
    interval and warm-up fire in one turn.
    """
    omitted = [i["sum"] for i in report["intervals"] if i["sum"]["omitted"]]
    if abs(sum(interval["seconds"] for interval in omitted) - spec.warmup) > 0.1:
        return None
    return sum(int(i[count]) for i in omitted) + int(report["end"][side][count])


def samples(measurement: str, spec: Iperf3, result: Result) -> list[Sample]:
    """Goodput as the receiver saw it, its time series, and what the protocol adds.

    Raises:
        ProbeError: a value is missing.
    """
    direction: Direction = "reverse" if spec.reverse else "forward"

    def sample(metric: str, unit: str, value: float, time: float | None = None) -> Sample:
        return Sample(
            measurement=measurement,
            metric=metric,
            unit=unit,
            value=value,
            direction=direction,
            kind="summary" if time is None else "interval",
            time=time,
        )

    try:
        summary = [sample(*row) for row in _summary(spec, result)]
        series = [*_series(spec, result.receiver), *_windows(spec, result.sender)]
        return summary + [sample(*row) for row in series]
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ProbeError(f"iperf3's result lacks {error}") from error


def _summary(spec: Iperf3, result: Result) -> list[tuple[str, str, float]]:
    received = result.receiver["end"]["sum_received"]
    rows = [("goodput", "Mbit/s", 8e-6 * received["bytes"] / received["seconds"])]
    if spec.protocol is Protocol.TCP:
        rows.append(
            ("retransmissions", "segments", result.sender["end"]["sum_sent"]["retransmits"])
        )
    if spec.protocol is Protocol.UDP:
        rows.append(("loss", "%", _loss(received, _tail(spec, result))))
        rows.append(("jitter", "ms", received["jitter_ms"]))
    if spec.streams > 1:
        from hawser.stats.fairness import jain  # imports scipy, which plans do not need

        index = jain([_received(each) for each in result.receiver["end"]["streams"]])
        rows += [("fairness", "ratio", index)] if index is not None else []
    return rows


def _received(stream: Mapping[str, Mapping[str, float]]) -> float:
    """What a stream's receiver got: bytes; of UDP datagrams, since a server counts no bytes."""
    if "udp" in stream:
        return float(stream["udp"]["packets"] - stream["udp"]["lost_packets"])
    return float(stream["receiver"]["bytes"])


def _tail(spec: Iperf3, result: Result) -> int:
    """Datagrams sent after the last one that came: the receiver cannot know of them.

    In reverse the client stops without waiting for what is under way, so there they say nothing.
    """
    sent = _total(spec, result.sender, "sum_sent", "packets")
    received = _total(spec, result.receiver, "sum_received", "packets")
    if spec.reverse or sent is None or received is None:
        return 0
    return max(0, sent - received)


def _loss(counts: Mapping[str, float], tail: int = 0) -> float:
    """Percent of the datagrams that were lost; 0 if none was expected."""
    expected = counts["packets"] + tail
    return 100 * (counts["lost_packets"] + tail) / expected if expected else 0.0


def _series(spec: Iperf3, receiver: Report) -> list[tuple[str, str, float, float]]:
    rows = []
    for interval in receiver["intervals"]:
        counts = interval["sum"]
        if counts["omitted"] or not _whole(spec, counts):
            continue
        end = float(counts["end"]) + float(spec.warmup)
        rows.append(("goodput", "Mbit/s", 1e-6 * counts["bits_per_second"], end))
        if spec.protocol is Protocol.UDP:
            rows.append(("loss", "%", _loss(counts), end))
    return rows


def _windows(spec: Iperf3, sender: Report) -> list[tuple[str, str, float, float]]:
    """Congestion windows of all streams together, and their mean smoothed round-trip time.

    Of the sender's `tcp_info` at the end of each interval; MPTCP tells the first subflow's only.
    """
    rows: list[tuple[str, str, float, float]] = []
    for interval in sender["intervals"] if spec.protocol is Protocol.TCP else ():
        streams = [each for each in interval["streams"] if "snd_cwnd" in each]
        if interval["sum"]["omitted"] or not streams or not _whole(spec, interval["sum"]):
            continue
        end = float(interval["sum"]["end"]) + float(spec.warmup)
        rows.append(("cwnd", "bytes", float(sum(each["snd_cwnd"] for each in streams)), end))
        rows.append(("srtt", "ms", fmean(each["rtt"] for each in streams) / 1000, end))
    return rows


def _whole(spec: Iperf3, interval: Mapping[str, float]) -> bool:
    """Whether an interval is as long as it is to be, and its fields agree.

    The first one after the warm-up may claim two (see `_total`); the last one is a rest.
    """
    return (
        interval["seconds"] >= 0.5 * spec.interval
        and abs(interval["end"] - interval["start"] - interval["seconds"]) < 0.1 * spec.interval
    )
