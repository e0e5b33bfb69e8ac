"""Counters of the WAN emulator in a trial, and whether it emulated the paths as configured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hawser.control.model import Quantiles, WanCounters, WanInterface, WanPath
from hawser.store.sample import Sample

LATE_US: Final = 1000.0
LATE_SHARE: Final = 0.05
"""A path is late if the 99th percentile of its lateness exceeds 1 ms and 5 % of its delay."""

_FEWEST: Final = 100
"""With fewer packets, one late packet says nothing about the 99th percentile."""

_LATE: Final = 0.01
"""Share of the packets: beyond the limit is then the 99th percentile."""

_PATH_COUNTS = ("drop_loss", "drop_buffer", "duplicated", "reordered", "held")
_OWN_DROPS = ("drop_ring", "drop_oversize", "drop_send")


def samples(before: WanCounters, after: WanCounters) -> Iterator[Sample]:
    """Give the counts between two readings, by path; lateness is since the start of the lab."""
    earlier = {path.name: path for path in before.paths}
    for path in after.paths:
        yield from _path(earlier.get(path.name), path)
    ports = {port.name: port for port in before.interfaces}
    for port in after.interfaces:
        yield from _port(ports[port.name], port)


def dropped(before: WanCounters, after: WanCounters) -> tuple[str, ...]:
    """Packets that the emulator itself lost between two readings, by cause: the trial is void."""
    found = {
        cause: _total(after.interfaces, cause) - _total(before.interfaces, cause)
        for cause in _OWN_DROPS
    }
    found["drop_buffer"] = _total(after.paths, "drop_buffer") - _total(before.paths, "drop_buffer")
    return tuple(
        f"the WAN emulator lost {n} packets by itself ({cause})" for cause, n in found.items() if n
    )


def _total(parts: Sequence[WanInterface] | Sequence[WanPath], cause: str) -> int:
    return sum(getattr(part, cause) for part in parts)


def late(before: WanCounters, after: WanCounters) -> tuple[str, ...]:
    """Paths that were late between two readings; measurements that depend on delays are then void.

    Quantiles count from the start of the lab. As many late packets as there may have been at the
    first reading are subtracted.
    """
    earlier = {path.name: path for path in before.paths}
    return tuple(_late(path) for path in after.paths if _is_late(earlier.get(path.name), path))


def _is_late(before: WanPath | None, after: WanPath) -> bool:
    limit = max(LATE_US, LATE_SHARE * after.delay_us)
    count, found = after.lateness_us.count, _late_at_least(after.lateness_us, limit)
    if before is not None:
        count -= before.lateness_us.count
        found -= _late_at_most(before.lateness_us, limit)
    return count >= _FEWEST and found >= _LATE * count


def _late_at_least(found: Quantiles, limit: float) -> float:
    """Packets later than a limit, at least."""
    shares = ((0.5, found.p50), (0.1, found.p90), (0.01, found.p99), (0.001, found.p999))
    return next((share * found.count for share, value in shares if value > limit), 0.0)


def _late_at_most(found: Quantiles, limit: float) -> float:
    """Packets later than a limit, at most."""
    shares = ((0.001, found.p999), (0.01, found.p99), (0.1, found.p90), (0.5, found.p50))
    if found.max <= limit:
        return 0.0
    return next((share * found.count for share, value in shares if value <= limit), found.count)


def _late(path: WanPath) -> str:
    late = path.lateness_us.p99 / 1000
    return f"the WAN emulator was late: {path.name} by {late:.2f} ms in the 99th percentile"


def _path(before: WanPath | None, after: WanPath) -> Iterator[Sample]:
    for count in _PATH_COUNTS:
        added = getattr(after, count) - (getattr(before, count) if before else 0)
        yield _sample(count, "packets", added, after.name)
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
