"""What the WAN emulator counted in a trial, and whether it did as it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hawser.control.model import WanCounters, WanInterface, WanPath
from hawser.store.sample import Sample

LATE_US: Final = 1000.0
LATE_SHARE: Final = 0.05
"""A path of which the 99th percentile is later than both was not the path asked for."""

_FEWEST: Final = 100
"""Packets below which one that was late says nothing of a 99th percentile."""

_PATH_COUNTS = ("drop_loss", "drop_buffer", "duplicated", "reordered", "held")
_OWN_DROPS = ("drop_ring", "drop_oversize", "drop_send")


def samples(before: WanCounters, after: WanCounters) -> Iterator[Sample]:
    """Give what was added between two readings, by path; lateness is since the lab was made."""
    earlier = {path.name: path for path in before.paths}
    for path in after.paths:
        yield from _path(earlier.get(path.name), path)
    ports = {port.name: port for port in before.interfaces}
    for port in after.interfaces:
        yield from _port(ports[port.name], port)


def faults(counters: WanCounters) -> tuple[str, ...]:
    """Say why a trial with these counters is void; empty where it is not."""
    late = [_late(path) for path in counters.paths if _is_late(path)]
    own: Mapping[str, int] = {
        cause: sum(getattr(port, cause) for port in counters.interfaces) for cause in _OWN_DROPS
    } | {"drop_buffer": sum(path.drop_buffer for path in counters.paths)}
    dropped = [f"the WAN emulator lost {n} packets by itself ({c})" for c, n in own.items() if n]
    return (*late, *dropped)


def _is_late(path: WanPath) -> bool:
    limit = max(LATE_US, LATE_SHARE * path.delay_us)
    return path.lateness_us.count >= _FEWEST and path.lateness_us.p99 > limit


def _late(path: WanPath) -> str:
    late = path.lateness_us.p99 / 1000
    return f"the WAN emulator was late: {path.name} by {late:.2f} ms in the 99th percentile"


def _path(before: WanPath | None, after: WanPath) -> Iterator[Sample]:
    for count in _PATH_COUNTS:
        added = getattr(after, count) - (getattr(before, count) if before else 0)
        yield _sample(count, "packets", added, after.name)
    if after.drop_queue:  # the kernel counts those of a constant rate under the same name
        added = after.drop_queue - (before.drop_queue if before else 0)
        yield _sample("drop_trace", "packets", added, after.name)
    if after.lateness_us.count:
        for quantile in ("p50", "p99", "max"):
            value = getattr(after.lateness_us, quantile)
            yield _sample(f"lateness_{quantile}", "us", value, after.name)


def _port(before: WanInterface, after: WanInterface) -> Iterator[Sample]:
    for cause in _OWN_DROPS:
        added = getattr(after, cause) - getattr(before, cause)
        yield _sample(cause, "packets", added, f"port:wan.{after.name}")


def _sample(metric: str, unit: str, value: float, subject: str) -> Sample:
    return Sample(
        measurement="passive", metric=metric, unit=unit, value=float(value), subject=subject
    )
