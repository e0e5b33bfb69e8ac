"""What a gateway measures in a second, from two readings of its counters. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hawser.control.series import name_of

_BITS = 8


@dataclass(frozen=True)
class Interface:
    """Counters of a network interface."""

    sent_bytes: int
    received_bytes: int
    dropped: int


@dataclass(frozen=True)
class Reading:
    """A gateway's state and counters at one time."""

    time: float
    """Seconds, of a monotonic clock."""
    status: Mapping[str, Any]
    """schemas/gateway-status.schema.json"""
    counters: Mapping[str, Any]
    """schemas/gateway-counters.schema.json"""
    classes: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Traffic type that a path group carries, by branch and number of the group."""
    ports: Mapping[str, Interface] = field(default_factory=dict)
    """By the ports' names."""


def measure(before: Reading | None, now: Reading) -> dict[str, float]:
    """Give values by the names of series (`hawser.control.series.KINDS`).

    What needs two readings lacks where there is only one, or the counters began anew.
    """
    found = dict(_states(now))
    if before is not None and now.time > before.time:
        old, new = dict(_totals(before)), dict(_totals(now))
        for name, (total, factor) in new.items():
            if name in old and total >= old[name][0]:
                found[name] = factor * (total - old[name][0]) / (now.time - before.time)
    return found


def _states(reading: Reading) -> Iterator[tuple[str, float]]:
    """What is so at a time."""
    waiting: dict[str, float] = {}
    for peer, group in _groups(reading.status):
        name = name_of("class", (peer, _class(reading, peer, group)), "queue")
        waiting[name] = waiting.get(name, 0.0) + float(group.get("queued_bytes", 0))
        for path in group.get("paths", ()):
            about = (peer, group["id"], path["member"])
            yield name_of("path", about, "up"), float(path["state"] not in ("probing", "down"))
            for metric, key in _STATES.items():
                if path.get(key) is not None:
                    yield name_of("path", about, metric), float(path[key])
    yield from waiting.items()


_STATES = {
    "capacity": "rate_bps",
    "rtt": "rtt_ms",
    "jitter": "jitter_ms",
    "loss": "loss",
    "queue": "queued_bytes",
    "share": "share",
}


def _totals(reading: Reading) -> Iterator[tuple[str, tuple[float, int]]]:
    """What is counted: the total, and the factor to the series' unit."""
    for peer, group in _groups(reading.status):
        for path in group.get("paths", ()):
            about = (peer, group["id"], path["member"])
            yield name_of("path", about, "rate"), (path["sent_bytes"], _BITS)
    classes: dict[str, tuple[float, int]] = {}
    for peer, group in _groups(reading.counters):
        for metric, total, factor in _of_group(group):
            name = name_of("class", (peer, _class(reading, peer, group)), metric)
            classes[name] = (classes.get(name, (0, 0))[0] + total, factor)
    yield from classes.items()
    for port, counted in reading.ports.items():
        yield name_of("port", (port,), "sent"), (counted.sent_bytes, _BITS)
        yield name_of("port", (port,), "received"), (counted.received_bytes, _BITS)
        yield name_of("port", (port,), "dropped"), (counted.dropped, 1)
    for at in ("tun", "switch"):
        for cause, count in ((reading.counters.get(at) or {}).get("drops") or {}).items():
            yield name_of("drop", (at, cause), "dropped"), (count, 1)


def _of_group(group: Mapping[str, Any]) -> Iterator[tuple[str, float, int]]:
    yield "sent", group["sent"]["bytes"], _BITS
    yield "received", group["received"]["bytes"], _BITS
    yield "dropped", sum(group["drops"].values()), 1


def _groups(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for peer in document.get("peers", ()):
        for group in peer.get("groups", ()):
            yield peer["branch"], group


def _class(reading: Reading, peer: str, group: Mapping[str, Any]) -> str:
    return reading.classes.get((peer, group["id"]), "II")
