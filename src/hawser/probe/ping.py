"""Round-trip time and loss by ICMP echo, measured by ping of iputils."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hawser.node.base import NodeError
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import Endpoint, endpoints
from hawser.spec.measurement import Ping
from hawser.store.sample import Sample

_ECHO = re.compile(
    r"^\[(?P<at>\d+\.\d+)\] .*\bicmp_seq=(?P<seq>\d+) .*\btime=(?P<ms>[\d.]+) ms(?P<dup> \(DUP!\))?"
)
_SUMMARY = re.compile(
    r"^(?P<sent>\d+) packets transmitted, (?P<received>\d+) received(?:, \+\d+ duplicates)?",
    re.MULTILINE,
)
FINE = 1000
"""Values from which their 99.9th percentile is another one than the largest."""
_SLOWEST = 0.02
"""Seconds between two echoes when ping falls behind a shorter interval."""
_LAST_REPLY_SECONDS = 5
"""How long the last reply is waited for where none came at all; else ping waits two round trips."""


@dataclass(frozen=True)
class Echo:
    """One reply."""

    sequence: int
    """From 1, in the order of sending."""
    at: float
    """When it came, seconds of the epoch."""
    rtt_ms: float

    @property
    def sent(self) -> float:
        """When the request was sent, seconds of the epoch."""
        return self.at - self.rtt_ms / 1000


@dataclass(frozen=True)
class Echoes:
    """What one run of ping saw."""

    sent: int
    replies: tuple[Echo, ...]
    """Distinct, in the order they came."""


class PingProbe:
    """Runs ping once.

    It sends one echo more than asked for: the first pays for address resolution and is discarded.
    """

    def __init__(self, spec: Ping) -> None:
        self._spec = spec

    def measure(self, context: Context) -> list[Sample]:
        """Send the echoes and wait for the last reply.

        Raises:
            ProbeError: ping failed, or not one echo was answered on an undisturbed path.
        """
        source, target = endpoints(context.lab, self._spec)
        context.started()
        try:
            done = source.node.run(
                self._command(source, target),
                timeout=max(self.seconds(), _SLOWEST * self._spec.echoes)
                + _LAST_REPLY_SECONDS
                + 10,
                check=False,
                env={"LC_ALL": "C"},
            )
        except NodeError as error:
            raise ProbeError(f"ping {self._spec.source} -> {self._spec.target}: {error}") from error
        (context.raw / f"{context.measurement}.ping.txt").write_text(
            done.stdout + done.stderr, encoding="utf-8"
        )
        if done.returncode not in (0, 1):  # 1: not every echo was answered
            raise ProbeError(
                f"ping {self._spec.source} -> {self._spec.target} ended with code "
                f"{done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"
            )
        echoes = parse(done.stdout)
        self._check(echoes, disrupted=context.disrupted)
        return samples(context.measurement, within(echoes, self._window))

    def _command(self, source: Endpoint, target: Endpoint) -> list[str]:
        spec = self._spec
        return [
            "ping", "-n", "-D",
            "-c", str(spec.echoes + 1),
            "-i", f"{spec.interval:.6f}",
            "-s", str(spec.size),
            "-W", str(_LAST_REPLY_SECONDS),
            "-I", source.address,
            target.address,
        ]  # fmt: skip

    def _check(self, echoes: Echoes, *, disrupted: bool) -> None:
        place = f"ping {self._spec.source} -> {self._spec.target}"
        if self._window is None and echoes.sent != self._spec.echoes + 1:
            raise ProbeError(
                f"{place} sent {echoes.sent} echoes instead of {self._spec.echoes + 1}"
            )
        if not echoes.replies and not disrupted:
            raise ProbeError(f"{place}: none of {echoes.sent} echoes was answered")

    def _slowest(self) -> float:
        """Seconds it may take to send all echoes."""
        return max(self.seconds(), _SLOWEST * self._spec.echoes)

    @property
    def _window(self) -> float | None:
        """Seconds in which echoes count; None if it does not matter when they are sent.

        ping keeps a short interval only as well as the machine's timers and its round trips let it,
        and must not measure what is no longer loaded.
        """
        if self._spec.during is None:
            return None
        return (self._spec.echoes + 1) * float(self._spec.interval)

    def seconds(self) -> float:
        """From the first echo to the last."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """`ping` of iputils."""
        return ("ping",)


def parse(text: str) -> Echoes:
    """Read the output of `ping -D`.

    Raises:
        ProbeError: it is cut off, or its counts contradict each other.
    """
    summary = _SUMMARY.search(text)
    if summary is None:
        raise ProbeError(f"ping's output has no summary: {text.strip()[-200:]!r}")
    replies: dict[int, Echo] = {}
    for line in text.splitlines():
        match = _ECHO.match(line)
        if match and not match["dup"]:
            echo = Echo(int(match["seq"]), float(match["at"]), float(match["ms"]))
            replies.setdefault(echo.sequence, echo)
    sent, received = int(summary["sent"]), int(summary["received"])
    if received != len(replies) or received > sent:
        raise ProbeError(
            f"ping counted {received} replies to {sent} echoes but listed {len(replies)}"
        )
    return Echoes(sent, tuple(replies.values()))


def within(echoes: Echoes, seconds: float | None) -> Echoes:
    """The echoes that were sent in the first seconds, answered or lost.

    When a lost one was sent follows from the mean interval of those that were answered.
    """
    if seconds is None or not echoes.replies:
        return echoes
    replies = sorted(echoes.replies, key=lambda echo: echo.sequence)
    first, last = replies[0], replies[-1]
    steps = last.sequence - first.sequence
    interval = (last.sent - first.sent) / steps if steps else 0
    if interval <= 0:
        return echoes
    through = first.sequence + round(seconds / interval) - 1
    kept = tuple(echo for echo in echoes.replies if echo.sent < first.sent + seconds)
    return Echoes(min(echoes.sent, max(through, *(echo.sequence for echo in kept))), kept)


def samples(measurement: str, echoes: Echoes) -> list[Sample]:
    """Median, smallest and percentiles of the round-trip times, the loss, and every echo.

    The first echo is left out of everything.
    """
    kept = [echo for echo in echoes.replies if echo.sequence > 1]
    counted = echoes.sent - 1
    rows = [("ping_loss", "%", 100 * (counted - len(kept)) / counted)] if counted else []
    if kept:
        rtts = [echo.rtt_ms for echo in kept]
        rows += [
            ("rtt", "ms", median(rtts)),
            ("rtt_min", "ms", min(rtts)),
            ("rtt_p99", "ms", percentile(rtts, 99)),
        ]
        if len(rtts) >= FINE:
            rows.append(("rtt_p999", "ms", percentile(rtts, 99.9)))
    summary = [
        Sample(measurement=measurement, metric=metric, unit=unit, value=value, direction="both")
        for metric, unit, value in rows
    ]
    return summary + _intervals(measurement, echoes.replies[0].at if kept else 0, kept)


def _intervals(measurement: str, began: float, echoes: Sequence[Echo]) -> list[Sample]:
    return [
        Sample(
            measurement=measurement,
            metric="rtt",
            unit="ms",
            value=echo.rtt_ms,
            direction="both",
            kind="interval",
            time=max(0.0, echo.at - began),
        )
        for echo in echoes
    ]


def median(rtts_ms: Sequence[float]) -> float:
    """Median of what ping prints, which has three digits: of a chain's 20 us only whole ones.

    Where the middle values are equal, they are taken to lie evenly within what was rounded to them.
    """
    ordered = sorted(rtts_ms)
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if lower != upper or len(ordered) < 2:
        return statistics.median(ordered)
    digits = 3 if lower < 1 else 2 if lower < 10 else 1 if lower < 100 else 0
    return statistics.median_grouped(ordered, interval=10**-digits)


def percentile(values: Sequence[float], percent: float) -> float:
    """Smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
