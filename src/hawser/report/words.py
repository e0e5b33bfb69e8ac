"""Numbers, metrics and variants as text."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hawser.stats import Effect, Interval, Summary
    from hawser.store import Direction

DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"

SURE = "95\N{NO-BREAK SPACE}%\N{NO-BREAK SPACE}CI\N{NO-BREAK SPACE}"
"""What stands before a confidence interval."""

_SPACES = frozenset("\t\n\r")


@dataclass(frozen=True)
class Term:
    """How a report names and ranks a metric."""

    title: str
    better: Literal["higher", "lower"]
    counted: bool = False
    """Whether it counts things: then values are "most" and "fewest", not "highest" and "lowest"."""

    @property
    def name(self) -> str:
        """The title as it stands within a sentence."""
        return self.title[:1].lower() + self.title[1:]

    @property
    def best(self) -> str:
        """The superlative of the best value."""
        if self.counted:
            return "most" if self.better == "higher" else "fewest"
        return "highest" if self.better == "higher" else "lowest"

    def compared(self, other: str) -> str:
        """What follows a ratio to another variant, such as "that of ipip"."""
        return f"as many as {other}" if self.counted else f"that of {other}"


def _at_loads(prefix: str, where: str) -> dict[str, Term]:
    """Loss and delays at another load than the throughput."""
    titles = {
        "loss": "Loss",
        "delay": "One-way delay",
        "delay_p99": "99th percentile of the one-way delay",
        "delay_p999": "99.9th percentile of the one-way delay",
        "variation_p99": "99th percentile of the delay variation",
    }
    return {f"{prefix}{name}": Term(f"{title} {where}", "lower") for name, title in titles.items()}


TERMS = {
    "goodput": Term("Goodput", "higher"),
    "goodput_min": Term("Goodput of the worst second", "higher"),
    "failover_time": Term("Failover time", "lower"),
    "reversion_time": Term("Reversion time", "lower"),
    "rtt": Term("Round-trip time", "lower"),
    "rtt_min": Term("Minimum round-trip time", "lower"),
    "rtt_p99": Term("99th percentile of the round-trip time", "lower"),
    "rtt_p999": Term("99.9th percentile of the round-trip time", "lower"),
    "fairness": Term("Fairness (Jain's index)", "higher"),
    "optimum_share": Term("Goodput as a share of the path program's optimum", "higher"),
    "cwnd": Term("Congestion window", "higher"),
    "srtt": Term("Smoothed round-trip time", "lower"),
    "queue": Term("Queue", "lower"),
    "delay": Term("One-way delay", "lower"),
    "delay_p99": Term("99th percentile of the one-way delay", "lower"),
    "delay_p999": Term("99.9th percentile of the one-way delay", "lower"),
    "variation_p99": Term("99th percentile of the delay variation", "lower"),
    "loss": Term("Loss", "lower"),
    "ping_loss": Term("Ping loss", "lower"),
    "frame_loss": Term("Frame loss rate", "lower"),
    "duplicated": Term("Duplicated frames", "lower"),
    "reordered": Term("Reordered frames", "lower"),
    "unsent": Term("Frames not sent in time", "lower"),
    "trials_repeated": Term("Repeated trials of the generator", "lower", counted=True),
    **_at_loads("part_load_", "at part load"),
    **_at_loads("pdr_", "at the partial drop rate"),
    "pdr": Term("Partial drop rate", "higher"),
    "pdr_frames": Term("Partial drop rate in frames", "higher"),
    "path_mtu": Term("Path MTU", "higher"),
    "available_bandwidth": Term("Available bandwidth", "higher"),
    "available_bandwidth_low": Term("Available bandwidth, lower bound", "higher"),
    "available_bandwidth_high": Term("Available bandwidth, upper bound", "higher"),
    "path_capacity": Term("Capacity of the path", "higher"),
    "estimate_error": Term("Stated error of the estimate", "lower"),
    "probe_traffic": Term("Traffic of the probe, of the port", "lower"),
    "probe_time": Term("Duration of the probe", "lower"),
    "trains": Term("Trains that count", "higher", counted=True),
    "trains_disturbed": Term("Trains that were disturbed", "lower", counted=True),
    "jitter": Term("Jitter", "lower"),
    "retransmissions": Term("Retransmissions", "lower", counted=True),
    "requests": Term("Requests per second", "higher", counted=True),
    "malicious_flows_blocked": Term("Share of malicious flows blocked", "higher"),
    "connections": Term("New connections per second", "higher", counted=True),
    "http_latency_p50": Term("Median request latency", "lower"),
    "http_latency_p90": Term("90th percentile of the request latency", "lower"),
    "http_latency_p99": Term("99th percentile of the request latency", "lower"),
    "http_latency_p999": Term("99.9th percentile of the request latency", "lower"),
    "http_unsent": Term("Requests not sent in time", "lower", counted=True),
    "http_errors": Term("Failed requests", "lower", counted=True),
    "cpu": Term("CPU time, of one core", "lower"),
    "memory": Term("Peak memory", "lower"),
}


def term(metric: str) -> Term:
    """How a metric is named; one without an entry is named after itself, and higher is better."""
    title = metric.replace("_", " ")
    return TERMS.get(metric) or Term(title[:1].upper() + title[1:], "higher")


def way(direction: Direction) -> str:
    """A direction in words; empty for a metric without one."""
    return {"none": "", "both": "both ways"}.get(direction, direction)


def number(value: float | None) -> str:
    """A number with three significant digits, and with all digits of its integer part."""
    if value is None:
        return DASH
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e9:
        return f"{value:.3g}"
    if value == int(value) and size < 1e9:
        return f"{int(value)}"
    digits = 2 - math.floor(math.log10(size))
    return f"{value:.{min(max(digits, 0), 6)}f}"


def interval(found: Interval | None) -> str:
    """An interval, such as 1-2; "-1 to 2" where a dash could be read as a minus sign."""
    if found is None:
        return DASH
    between = " to " if found.low < 0 else DASH
    return f"{number(found.low)}{between}{number(found.high)}"


def middle(found: Summary) -> str:
    """A median; where the true one is larger, with that said."""
    return ("> " if found.open else "") + number(found.median)


def times(effect: Effect, unit: str = "") -> str:
    """An effect with its interval, such as 3.10x (95 % CI 2.95-3.30)."""
    value = effect_value(effect)
    if effect.kind == "difference":
        value = f"{value} {unit}".strip()
    return f"{value} ({SURE}{effect_interval(effect)})" if effect.interval else value


def effect_value(effect: Effect) -> str:
    """An effect alone, such as 3.10x, or +0.3 where it is a difference."""
    if effect.kind == "difference":
        return ("+" if effect.value > 0 else "") + number(effect.value)
    if effect.kind == "order":
        return f"larger in {effect.value:.0%} of {effect.n}"
    return f"{effect.value:.{_ratio_digits(effect)}f}{TIMES}"


def effect_interval(effect: Effect) -> str:
    """The interval of an effect, with the digits of a ratio."""
    if effect.interval is None or effect.kind == "difference":
        return interval(effect.interval)
    digits = _ratio_digits(effect)
    return f"{effect.interval.low:.{digits}f}{DASH}{effect.interval.high:.{digits}f}"


def _ratio_digits(effect: Effect) -> int:
    largest = effect.interval.high if effect.interval is not None else effect.value
    if largest < 0.1:  # two significant digits
        return min(1 - math.floor(math.log10(largest)), 9) if largest > 0 else 2
    return 2 if largest < 10 else 1 if largest < 1000 else 0


def probability(p: float | None) -> str:
    """A probability of chance."""
    if p is None:
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def percent(share: float | None) -> str:
    """A share in percent, with one decimal if it is small."""
    if share is None:
        return DASH
    return f"{100 * share:.{1 if abs(share) < 0.1 else 0}f}\N{NO-BREAK SPACE}%"


def count(n: int, noun: str) -> str:
    """A number of things: `1 run`, `3 runs`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def join(parts: list[str]) -> str:
    """A list in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def clean(text: str, longest: int = 160) -> str:
    """Text from a file without control, format and private characters, cut to a length."""
    shown = "".join(
        "\N{REPLACEMENT CHARACTER}" if _hidden(character) else character
        for character in text[: longest + 1]
    )
    return shown if len(shown) <= longest else shown[:longest] + "…"


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co") and character not in _SPACES
