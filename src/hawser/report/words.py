"""How numbers, metrics and variants are put into words."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hawser.stats import Interval, Ratio
    from hawser.store import Direction

DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"

_SPACES = frozenset("\t\n\r")


@dataclass(frozen=True)
class Term:
    """What is said about a metric."""

    title: str
    better: Literal["higher", "lower"]
    most: str
    """Of the variant that leads: what it did, before its number."""
    did: str
    """Of the others, in a comparison."""


TERMS = {
    "goodput": Term("Goodput", "higher", "carried", "did"),
    "goodput_min": Term("Goodput of the poorest second", "higher", "carried", "did"),
    "failover_time": Term("Failover time", "lower", "was back the soonest,", "took"),
    "reversion_time": Term("Reversion time", "lower", "used it again the soonest,", "took"),
    "rtt": Term("Round-trip time", "lower", "had the shortest round-trip time,", "had"),
    "rtt_min": Term("Shortest round-trip time", "lower", "had the lowest", "had"),
    "rtt_p99": Term("99th percentile of round-trip time", "lower", "had the lowest", "had"),
    "loss": Term("Loss", "lower", "lost the least,", "did"),
    "ping_loss": Term("Lost echoes", "lower", "lost the least,", "did"),
    "jitter": Term("Jitter", "lower", "had the lowest jitter,", "had"),
    "retransmissions": Term("Retransmissions", "lower", "retransmitted the least,", "did"),
    "requests": Term("Requests a second", "higher", "answered", "did"),
    "connections": Term("New connections a second", "higher", "took", "did"),
    "http_latency_p50": Term("Median latency of a request", "lower", "had the lowest", "had"),
    "http_latency_p90": Term("90th percentile of latency", "lower", "had the lowest", "had"),
    "http_latency_p99": Term("99th percentile of latency", "lower", "had the lowest", "had"),
    "http_errors": Term("Failed requests", "lower", "failed the least,", "had"),
    "cpu": Term("Processor time, of one core", "lower", "needed the least,", "did"),
    "memory": Term("Peak memory", "lower", "needed the least,", "did"),
}


def term(metric: str) -> Term:
    """What is said about a metric, also about one that is not known here."""
    title = metric.replace("_", " ")
    return TERMS.get(metric) or Term(title[:1].upper() + title[1:], "higher", "reached", "did")


def way(direction: Direction) -> str:
    """A direction as it is said; empty where it makes no sense."""
    return {"none": "", "both": "both ways"}.get(direction, direction)


def number(value: float | None) -> str:
    """A number as a reader wants it: three significant digits, all digits of the integer part."""
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
    """An interval: low, dash, high; a word for the dash where it could be taken for a minus."""
    if found is None:
        return DASH
    between = " to " if found.low < 0 else DASH
    return f"{number(found.low)}{between}{number(found.high)}"


def times(ratio: Ratio) -> str:
    """A ratio with its interval, such as 3.10x (95 % CI 2.95-3.30)."""
    low_high = ratio_interval(ratio)
    return f"{ratio_value(ratio)} (95 % CI {low_high})" if ratio.interval else ratio_value(ratio)


def ratio_value(ratio: Ratio) -> str:
    """A ratio alone, such as 3.10x."""
    return f"{ratio.value:.{_ratio_digits(ratio)}f}{TIMES}"


def ratio_interval(ratio: Ratio) -> str:
    """The interval of a ratio, with the digits of the ratio."""
    if ratio.interval is None:
        return DASH
    digits = _ratio_digits(ratio)
    between = " to " if ratio.interval.low < 0 else DASH
    return f"{ratio.interval.low:.{digits}f}{between}{ratio.interval.high:.{digits}f}"


def _ratio_digits(ratio: Ratio) -> int:
    largest = abs(ratio.interval.high if ratio.interval is not None else ratio.value)
    return 2 if largest < 10 else 1 if largest < 1000 else 0


def percent(share: float | None) -> str:
    """A share in percent, with one digit where it is small."""
    if share is None:
        return DASH
    return f"{100 * share:.{1 if abs(share) < 0.1 else 0}f}\N{NO-BREAK SPACE}%"


def count(n: int, noun: str) -> str:
    """A number of things: `1 run`, `3 runs`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def join(parts: list[str]) -> str:
    """An enumeration: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def clean(text: str, longest: int = 160) -> str:
    """Text from a file, without what steers terminals or turns direction; cut where endless."""
    shown = "".join(
        "\N{REPLACEMENT CHARACTER}" if _hidden(character) else character
        for character in text[: longest + 1]
    )
    return shown if len(shown) <= longest else shown[:longest] + "…"


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co") and character not in _SPACES
