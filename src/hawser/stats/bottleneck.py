"""Find the bottlenecks of a measurement from the drops and loads recorded during it.

An element is named only on evidence of its own: it dropped packets, or it needed more of a resource
than it had. Several are named if each limited by itself, but not one that another explains. If
nothing was at its limit, nothing is named.
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

Kind = Literal[
    "load", "rate", "queue", "filter", "function", "generator", "receiver", "window", "loss"
]

DELIVERED: Final = 0.99
"""Share of the offered load that arrived from which that load was itself the limit: nothing in the
network took more than the rest."""
FULL: Final = 0.85
"""Mean load from which a direction that drops packets is saturated, as a share of its rate.

Drops at a lower load mean that the queue is too short. TCP with a queue of half a bandwidth-delay
product fills a link to 85 % and more; the start and end of a measurement carry less.
"""
FULL_AT_DROP: Final = 0.9
"""Load at the time of the drops that shows saturation if the mean load is lower."""
PEAK: Final = 0.97
"""Peak load of a direction that is saturated without dropping."""
RECURRING: Final = 0.3
"""Share of the time from the first drop to the last from which drops below `FULL` limit the whole
measurement. Slow start and single bursts take less, but for two quarter seconds of 2 s."""
ACK_FRAME: Final = 200.0
"""Mean frame, bytes, up to which a direction carries acknowledgements: 66 bytes plain, up to 150 in
a tunnel. A direction full of larger frames is full of other traffic."""
BUSY: Final = 0.9
"""Share of the time in which a saturated thread runs or is runnable."""
THROTTLED: Final = 0.5
"""Share of CFS periods with throttling from which the CPU quota is the limit."""
SUPPLIED: Final = 0.5
"""Share of the time with data in flight below which the sending program is the limit."""
WINDOW_LIMITED: Final = 0.5
"""Share of the time limited by the receive window, from which that is the limit."""
BUFFER_LIMITED: Final = 0.2
"""The same for the send buffer. Lower, because the kernel reports about a third of that time
(measured with 16 kB and an RTT of 10 ms)."""
UNREAD: Final = 0.5
"""Share of the receive buffer left unread from which the receiving program closes the window.
Below, the window itself is too small."""
NETWORK_LIMITED: Final = 0.25
"""Share of the time limited by congestion control below which losses do not limit TCP."""
DROP_RATIO: Final = 1e-4
"""Share of packets below which drops are not taken for the limit of traffic that reacts to them:
TCP then has a window of over 100 segments (Mathis et al., CCR 27, 1997)."""
LOST_RATIO: Final = 0.005
"""The same of traffic that does not react, whose goodput falls by no more than this share."""
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
    """The strongest first; several if each limited by itself; none if nothing was at its limit."""
    nearest: Cause | None = None
    """The element nearest to its limit among the others."""


def find(evidence: Evidence) -> Diagnosis:
    """Name the elements that limited a measurement, and the one nearest to its limit besides."""
    limits = tuple(_offered(evidence)) or tuple(_explaining(evidence))
    named = {cause.element for cause in limits}
    others = [cause for cause in _utilisations(evidence) if cause.element not in named]
    nearest = max(others, key=lambda cause: cause.utilisation, default=None)
    return Diagnosis(limits=limits, nearest=nearest)


def _offered(evidence: Evidence) -> Iterator[Cause]:
    """Look whether the network carried all that was offered."""
    offered = evidence.offered
    if offered is None:
        return
    delivered = offered.delivered
    if delivered is None:  # not known: it was if the sender had nothing to send most of the time
        delivered = 1.0 if evidence.connections and not _supplied(evidence) else 0.0
    if delivered >= DELIVERED:
        yield Cause(
            kind="load", element=offered.generator, utilisation=delivered, observation=offered
        )


def _explaining(evidence: Evidence) -> Iterator[Cause]:
    """Give the causes that no stronger one explains, the strongest first."""
    named: list[Cause] = []
    for check in _ORDER:
        for cause in check(evidence):
            if not any(_explains(stronger, cause) for stronger in named):
                named.append(cause)
    yield from named


def _explains(stronger: Cause, weaker: Cause) -> bool:
    """Tell whether a cause makes another irrelevant, or is the reason for it."""
    if stronger.element == weaker.element:
        return stronger.kind != "filter"
    match stronger:
        case Cause(kind="rate", observation=Queue(load=load)) if load >= FULL:
            # It carried all it could: besides, only what takes a share of that counts.
            return weaker.kind != "rate" and not _takes_share(weaker.observation)
        case Cause(observation=CpuQuota()) | Cause(kind="function", observation=Program()):
            return weaker.kind == "queue"  # It sends in bursts.
        case _:
            return False


def _takes_share(seen: Observation) -> bool:
    return isinstance(seen, DropPoint) and share(seen.drops, seen.packets) >= LOST_RATIO


def _supplied(evidence: Evidence) -> bool:
    """Tell whether the sending program supplied data most of the time, as far as is known."""
    return max((each.busy for each in evidence.connections), default=1.0) >= SUPPLIED


def _sensitive(evidence: Evidence) -> bool:
    """Tell whether losses could limit: only if congestion control held the sender back."""
    if not evidence.reacts or not evidence.connections:
        return True
    return max(each.network_limited for each in evidence.connections) >= NETWORK_LIMITED


def _lossy(evidence: Evidence, drops: int, packets: int) -> bool:
    """Tell whether so many drops are enough to limit."""
    ratio = DROP_RATIO if evidence.reacts else LOST_RATIO
    return drops >= MIN_DROPS and share(drops, packets) >= ratio


def _drops(evidence: Evidence, queue: Queue) -> bool:
    return _lossy(evidence, queue.drops, queue.packets + queue.drops)


def _full(evidence: Evidence, queue: Queue) -> bool:
    if queue.acks and not 0 < queue.frame <= ACK_FRAME:
        return False
    if queue.load >= FULL:
        return queue.peak >= PEAK or _drops(evidence, queue)
    at_drop = queue.load_at_drop >= FULL_AT_DROP and queue.drop_span >= RECURRING
    return at_drop and _drops(evidence, queue) and _sensitive(evidence)


def _full_sockets(evidence: Evidence) -> Iterator[Cause]:
    """Find receive buffers that overflowed: the network delivered more than the program read."""
    for each in evidence.sockets:
        total = each.packets + each.drops
        if each.role != "generator" and _lossy(evidence, each.drops, total):
            yield Cause(kind=each.role, element=each.node, utilisation=1.0, observation=each)


def _full_queues(evidence: Evidence) -> Iterator[Cause]:
    for each in sorted(evidence.queues, key=lambda queue: queue.rate):
        if _full(evidence, each):
            yield _of_queue("rate", each)


def _filters(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.stacks:
        if _lossy(evidence, each.drops, each.packets) and _sensitive(evidence):
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
        recurring = each.drop_span >= RECURRING
        if not each.acks and recurring and _drops(evidence, each) and _sensitive(evidence):
            yield _of_queue("queue", each)


def _waiting(evidence: Evidence) -> Iterator[Cause]:
    """Look for connections that waited for a window, a buffer, or their own program."""
    for each in evidence.connections:
        if max(each.window_limited - WINDOW_LIMITED, each.buffer_limited - BUFFER_LIMITED) >= 0:
            yield _of_connection(each)
    if evidence.connections and not _supplied(evidence):
        idle = max(evidence.connections, key=lambda connection: connection.busy)
        yield Cause(
            kind=idle.sender_role,
            element=idle.sender,
            utilisation=1 - idle.busy,
            observation=idle,
        )


def _configured_losses(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.losses:
        if _lossy(evidence, each.packets, each.sent or each.packets) and _sensitive(evidence):
            yield Cause(kind="loss", element=each.name, utilisation=1.0, observation=each)


_ORDER: Final = (
    _full_sockets,
    _full_queues,
    _filters,
    _throttled("function"),
    _saturated("function"),
    _throttled("generator", "receiver"),
    _short_queues,
    _saturated("generator", "receiver"),
    _waiting,
    _configured_losses,
)


def _utilisations(evidence: Evidence) -> Iterator[Cause]:
    """Give the utilisation of every element that has a limit."""
    for queue in evidence.queues:
        if not queue.acks:
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
    """Name who kept a connection waiting: the receiver, its window, or the sender's buffer."""
    window = connection.window >= connection.buffer
    if not window:
        kind: Kind = connection.sender_role
    else:
        kind = connection.receiver_role if connection.unread >= UNREAD else "window"
    return Cause(
        kind=kind,
        element=connection.receiver if window else connection.sender,
        utilisation=max(connection.window_limited, connection.buffer_limited),
        observation=connection,
    )
