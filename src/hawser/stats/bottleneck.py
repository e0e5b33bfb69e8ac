"""Find the bottleneck of a measurement from the drops and loads recorded during it.

An element is named only on evidence of its own: it dropped packets, or it needed more of a resource
than it had. Elements that drop or hold back all traffic are checked before those that would only
have slowed it down. If several elements of one kind are saturated (paths used together), all are
named. If nothing was at its limit, nothing is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from hawser.spec.model import Model
from hawser.stats.evidence import (
    Connection,
    CpuQuota,
    DropPoint,
    Evidence,
    Observation,
    Program,
    Queue,
    Role,
    share,
)

Kind = Literal["rate", "queue", "filter", "function", "generator", "receiver", "loss"]

FULL: Final = 0.85
"""Mean load from which a direction that drops packets is saturated, as a share of its rate.

Drops at a lower load mean that the queue is too short. TCP with a queue of half a bandwidth-delay
product fills a link to 85 % and more; the start and end of a measurement carry less.
"""
FULL_AT_DROP: Final = 0.9
"""Load at the time of the drops that shows saturation if the mean load is lower."""
PEAK: Final = 0.97
"""Peak load of a direction that is saturated without dropping."""
BUSY: Final = 0.9
"""Share of the time in which a saturated thread runs or is runnable."""
THROTTLED: Final = 0.5
"""Share of CFS periods with throttling from which the CPU quota is the limit."""
WINDOW_LIMITED: Final = 0.5
"""Share of a connection's time limited by the receive window, from which that is the limit."""
BUFFER_LIMITED: Final = 0.2
"""The same for the send buffer. Lower, because the kernel reports about a third of that time
(measured with 16 kB and an RTT of 10 ms)."""
DROP_RATIO: Final = 1e-4
"""Share of packets below which drops are not taken for the limit."""
MIN_DROPS: Final = 5
"""Fewer drops than this may come from the start of the traffic alone."""


class Cause(Model):
    """An element at its limit, or the one nearest to it."""

    kind: Kind
    element: str
    """A direction such as `link:x:forward`, a daemon, or a node."""
    utilisation: float
    """Share of its limit that was used."""
    observation: Observation
    """The evidence."""


class Diagnosis(Model):
    """What limited a measurement."""

    limits: tuple[Cause, ...] = ()
    """Several if elements of one kind were at their limit together; none if nothing was."""
    nearest: Cause | None = None
    """The element nearest to its limit among the others."""


def find(evidence: Evidence) -> Diagnosis:
    """Name the elements that limited a measurement, and the one nearest to its limit besides."""
    limits = next((found for check in _ORDER if (found := tuple(check(evidence)))), ())
    named = {cause.element for cause in limits}
    others = [cause for cause in _utilisations(evidence) if cause.element not in named]
    nearest = max(others, key=lambda cause: cause.utilisation, default=None)
    return Diagnosis(limits=limits, nearest=nearest)


def _full(queue: Queue) -> bool:
    if queue.load >= FULL:
        return queue.drops > 0 or queue.peak >= PEAK
    return queue.load_at_drop >= FULL_AT_DROP and queue.drop_ratio >= DROP_RATIO


def _full_sockets(evidence: Evidence) -> Iterator[Cause]:
    """Find receive buffers that overflowed: the network delivered more than the program read."""
    for each in evidence.sockets:
        if each.role != "generator" and _lossy(each):
            yield Cause(kind=each.role, element=each.node, utilisation=1.0, observation=each)


def _full_queues(evidence: Evidence) -> Iterator[Cause]:
    for each in sorted(filter(_full, evidence.queues), key=lambda queue: queue.rate):
        yield _of_queue("rate", each)


def _filters(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.stacks:
        if _lossy(each):
            yield Cause(kind="filter", element=each.node, utilisation=1.0, observation=each)


def _throttled(*roles: Role) -> Callable[[Evidence], Iterator[Cause]]:
    """Look for nodes that used up their CPU quota."""

    def check(evidence: Evidence) -> Iterator[Cause]:
        for each in evidence.cpu_quotas:
            if each.role in roles and each.throttled >= THROTTLED:
                yield _of_quota(each)

    return check


def _saturated(*roles: Role) -> Callable[[Evidence], Iterator[Cause]]:
    """Look for the program with the busiest saturated thread."""

    def check(evidence: Evidence) -> Iterator[Cause]:
        busy = [each for each in evidence.programs if each.role in roles and each.demand >= BUSY]
        for each in sorted(busy, key=lambda program: -program.demand)[:1]:
            yield _of_program(each)

    return check


def _short_queues(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.queues:
        if each.drops >= MIN_DROPS and each.drop_ratio >= DROP_RATIO:
            yield _of_queue("queue", each)


def _window_limited(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.connections:
        if each.window >= WINDOW_LIMITED or each.buffer >= BUFFER_LIMITED:
            yield _of_connection(each)


def _configured_losses(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.losses:
        if each.packets >= MIN_DROPS:
            yield Cause(kind="loss", element=each.name, utilisation=1.0, observation=each)


def _lossy(point: DropPoint) -> bool:
    return point.drops >= MIN_DROPS and share(point.drops, point.packets) >= DROP_RATIO


_ORDER: Final = (
    _full_sockets,
    _full_queues,
    _filters,
    _throttled("function"),
    _saturated("function"),
    _throttled("generator", "receiver"),
    _short_queues,
    _saturated("generator", "receiver"),
    _window_limited,
    _configured_losses,
)


def _utilisations(evidence: Evidence) -> Iterator[Cause]:
    """Give the utilisation of every element that has a limit."""
    for queue in evidence.queues:
        yield _of_queue("rate", queue)
    for program in evidence.programs:
        yield _of_program(program)
    for quota in evidence.cpu_quotas:
        yield _of_quota(quota)
    for connection in evidence.connections:
        yield _of_connection(connection)


def _of_queue(kind: Kind, queue: Queue) -> Cause:
    return Cause(
        kind=kind, element=queue.name, utilisation=max(queue.load, queue.peak), observation=queue
    )


def _of_program(program: Program) -> Cause:
    return Cause(
        kind=program.role, element=program.element, utilisation=program.demand, observation=program
    )


def _of_quota(quota: CpuQuota) -> Cause:
    return Cause(kind=quota.role, element=quota.node, utilisation=quota.used, observation=quota)


def _of_connection(connection: Connection) -> Cause:
    window = connection.window >= connection.buffer
    return Cause(
        kind=connection.receiver_role if window else connection.sender_role,
        element=connection.receiver if window else connection.sender,
        utilisation=max(connection.window, connection.buffer),
        observation=connection,
    )
