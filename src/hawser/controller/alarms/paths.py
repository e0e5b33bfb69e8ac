"""What is wrong with paths: down, degraded, or below a class's thresholds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hawser.controller.alarms.baseline import Baseline
from hawser.controller.alarms.condition import Condition, Kind, Level
from hawser.controller.alarms.grouping import Grouping
from hawser.controller.alarms.pathstate import PathState
from hawser.spec.overlay import TrafficType
from hawser.spec.policy import ClassPolicy, Sla

_NAMED: Final = 4
"""Most paths that a sentence names."""

Pairs = Mapping[tuple[str, str], Sequence[PathState]]
"""Paths by branch and peer."""


@dataclass(frozen=True)
class Limits:
    """When a path counts as degraded."""

    loss: float = 0.05
    """Share of bytes lost."""
    rtt_factor: float = 3.0
    """Round-trip time, as a multiple of the lowest of the last day, ..."""
    rtt_more_ms: float = 50.0
    """... if it is also so much above it."""


def by_pair(paths: Iterable[PathState], branches: Collection[str]) -> Pairs:
    """Sort paths by branch and peer; leave out peers that have no gateway yet."""
    found: dict[tuple[str, str], list[PathState]] = {}
    for path in paths:
        if path.peer in branches and path.source in branches:
            found.setdefault((path.source, path.peer), []).append(path)
    return found


def down_conditions(pairs: Pairs, grouping: Grouping) -> Iterator[Condition]:
    """Give the pairs whose gateway says that the peer does not answer on some paths."""
    for (source, peer), paths in pairs.items():
        down = [path for path in paths if not path.up]
        if not down:
            continue
        level = Level.CRITICAL if len(down) == len(paths) else Level.WARNING
        detail = (
            f"from {source} to {peer} {len(down)} of {len(paths)} paths are down: {_list(down)}"
        )
        yield _condition(
            Kind.PATH_DOWN,
            (source, peer),
            level,
            grouping.of(source, peer, down),
            detail,
            len(down),
        )


def degraded_conditions(
    now: float, pairs: Pairs, limits: Limits, baseline: Baseline
) -> Iterator[Condition]:
    """Give the pairs with paths that work, but badly."""
    for (source, peer), paths in pairs.items():
        found = [
            (path, why) for path in paths if path.up and (why := _why(now, path, limits, baseline))
        ]
        if found:
            texts = "; ".join(f"{path.name} {why}" for path, why in found[:_NAMED])
            count = f"{len(found)} of {len(paths)} paths are degraded"
            detail = f"from {source} to {peer} {count}: {texts}"
            figures = {
                "loss": max((p.loss for p, _ in found if p.loss >= 0), default=0.0),
                "rtt_ms": max((p.rtt for p, _ in found if p.rtt >= 0), default=0.0),
            }
            yield _condition(
                Kind.PATH_DEGRADED,
                (source, peer),
                Level.WARNING,
                _pair(source, peer),
                detail,
                len(found),
                figures,
            )


def _why(now: float, path: PathState, limits: Limits, baseline: Baseline) -> str:
    found = []
    if path.loss >= limits.loss:
        found.append(f"loses {path.loss:.2g} of its bytes (limit {limits.loss:.2g})")
    low = baseline.of(now, path)
    if path.rtt >= limits.rtt_factor * low and path.rtt - low >= limits.rtt_more_ms:
        found.append(f"has an RTT of {path.rtt:.3g} ms (lowest of a day {low:.3g} ms)")
    return " and ".join(found)


def sla_conditions(
    pairs: Pairs, policy: Mapping[TrafficType, ClassPolicy], grouping: Grouping
) -> Iterator[Condition]:
    """Give the pairs whose paths do not meet the thresholds of a class."""
    for traffic, wanted in policy.items():
        if wanted.sla is None or traffic is TrafficType.III:
            continue
        for (source, peer), paths in pairs.items():
            own = [path for path in paths if path.traffic is traffic]
            usable = own or [path for path in paths if path.traffic is not None]
            found = [(path, why) for path in usable if (why := broken(path, wanted.sla))]
            if found:
                yield _sla(traffic, source, peer, len(usable), found, grouping)


def _sla(
    traffic: TrafficType,
    source: str,
    peer: str,
    count: int,
    found: Sequence[tuple[PathState, str]],
    grouping: Grouping,
) -> Condition:
    all_ = len(found) == count
    texts = "; ".join(f"{path.name}: {why}" for path, why in found[:_NAMED])
    what = "none of" if all_ else f"{len(found)} of"
    verb = "meets" if all_ else "do not meet"
    detail = f"from {source} to {peer} {what} {count} paths {verb} the SLA of class"
    return _condition(
        Kind.NO_COMPLIANT_PATH if all_ else Kind.SLA_BROKEN,
        (source, peer),
        Level.CRITICAL if all_ else Level.WARNING,
        grouping.of(source, peer, [path for path, _ in found]),
        f"{detail} {traffic.value}: {texts}",
        len(found),
        traffic=traffic.value,
    )


def broken(path: PathState, sla: Sla) -> str:
    """Say which thresholds a path does not meet; empty where it meets all (docs/design/sla.md)."""
    if not path.up:
        return "down"
    checks = (
        ("rate", sla.rate, path.capacity, 1e-6, "Mbit/s", False),
        ("delay", sla.delay, path.rtt / 2000, 1e3, "ms", True),
        ("jitter", sla.jitter, path.jitter / 1000, 1e3, "ms", True),
        ("loss", sla.loss, path.loss, 1e2, "%", True),
    )
    texts = []
    for name, limit, value, factor, unit, most in checks:
        # Comparisons with NaN are false: what is not measured does not count.
        if limit is not None and (value > limit if most else value < limit):
            bound = "at most" if most else "at least"
            texts.append(
                f"{name} {factor * value:.3g} {unit} ({bound} {factor * limit:.3g} {unit})"
            )
    return ", ".join(texts)


def _condition(
    kind: Kind,
    ends: tuple[str, str],
    level: Level,
    group: str,
    detail: str,
    affected: int,
    figures: Mapping[str, float] | None = None,
    traffic: str | None = None,
) -> Condition:
    subject = f"{ends[0]}>{ends[1]}" + (f"/{traffic}" if traffic else "")
    return Condition(kind, subject, level, ends, group, detail, figures or {}, affected)


def _pair(one: str, other: str) -> str:
    return f"{min(one, other)}-{max(one, other)}"


def _list(paths: Sequence[PathState]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(path.name for path in paths[:_NAMED]) + more
