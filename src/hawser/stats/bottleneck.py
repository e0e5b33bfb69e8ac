"""Which element limited a measurement, from what was seen near its limit.

An element is named for evidence of its own: it dropped packets, or wanted more than it had. Those
that drop or hold back all the traffic are asked before those that would only have slowed it; where
several of one kind are full (paths used at once), all are named. Where nothing was at its limit,
nothing is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal

from hawser.spec.model import Model

Role = Literal["generator", "receiver", "function"]
"""What a node is to a measurement: where traffic starts, where it ends, or on its way."""

Kind = Literal["rate", "queue", "filter", "function", "generator", "receiver", "loss"]

FULL: Final = 0.85
"""Mean load from which a direction that drops is full; below it, its queue is too short.

TCP with a queue of half a bandwidth-delay product fills a link to 85 % and more; the first and
last moments of a measurement carry less.
"""
FULL_NOW: Final = 0.9
"""Load at the very time of drops, of a direction that is not loaded all the time."""
BRIM: Final = 0.97
"""Load in the busiest moment of a direction that is full without dropping."""
BUSY: Final = 0.9
"""Share of the time in which a saturated thread runs, or is ready to."""
THROTTLED: Final = 0.5
"""Share of scheduling periods in which programs wait that always have something to do."""
WINDOW: Final = 0.5
"""Share of a connection's time spent waiting for the other side's window, if that is the limit."""
BUFFER: Final = 0.2
"""The same of the own buffer: the kernel sees a third of it, where 16 kB hold back 10 ms of RTT."""
DROPPED: Final = 1e-4
"""Share of packets below which drops explain nothing."""
FEWEST: Final = 5
"""Dropped packets that may be an accident of the start."""


class Queue(Model):
    """One direction that has a rate."""

    name: str
    rate: float
    """Mbit/s."""
    load: float
    """Mean share of the rate while traffic flowed."""
    busiest: float
    """Share of the rate in the busiest moment."""
    packets: int
    drops: int
    load_at_drop: float = 0.0
    """Share of the rate when it dropped."""

    @property
    def dropped(self) -> float:
        """Share of the packets that it dropped."""
        return share(self.drops, self.packets + self.drops)


class Program(Model):
    """The busiest thread of a program; shares of the time."""

    element: str
    """Its node, or the daemon that it is."""
    name: str
    role: Role
    demand: float
    """Running, or ready to run."""
    cpu: float
    """Running."""


class Budget(Model):
    """All programs of a node with a limit of processor time."""

    node: str
    role: Role
    used: float
    """Share of the limit that they used."""
    throttled: float
    """Share of the periods in which they had to wait."""


class Taker(Model):
    """What takes packets in: a node's protocol stack, or the sockets of a node."""

    node: str
    role: Role
    packets: int
    """Taken in, in the case of sockets delivered."""
    drops: int


class Connection(Model):
    """The TCP connections of a node that sends, and what they waited for; shares of the time."""

    sender: str
    sender_role: Role
    taker: str
    taker_role: Role
    window: float
    """For the taker to make room."""
    buffer: float
    """For the sender's own buffer, which is too small to fill the path."""


class Loss(Model):
    """What a path lost because it was asked to."""

    name: str
    packets: int
    """Lost."""


class Evidence(Model):
    """All that was seen during one measurement."""

    queues: tuple[Queue, ...] = ()
    programs: tuple[Program, ...] = ()
    budgets: tuple[Budget, ...] = ()
    stacks: tuple[Taker, ...] = ()
    """Protocol stacks: what they drop, a filter or policer does."""
    sockets: tuple[Taker, ...] = ()
    connections: tuple[Connection, ...] = ()
    losses: tuple[Loss, ...] = ()


Sign = Queue | Program | Budget | Taker | Connection | Loss


class Cause(Model):
    """An element that was at its limit, or nearest to it."""

    kind: Kind
    element: str
    """A direction such as `link:x:forward`, a daemon, or a node."""
    pressure: float
    """How near it was to its limit, as a share of it."""
    sign: Sign
    """What shows it."""


class Verdict(Model):
    """What limited a measurement."""

    limits: tuple[Cause, ...] = ()
    """Several where equal ones were at their limit together; none where it cannot be told."""
    nearest: Cause | None = None
    """Of the others, the one nearest to its limit."""


def find(evidence: Evidence) -> Verdict:
    """Name what limited, and what would have been next."""
    limits = next((found for ask in _ORDER if (found := tuple(ask(evidence)))), ())
    named = {cause.element for cause in limits}
    others = [cause for cause in _pressures(evidence) if cause.element not in named]
    nearest = max(others, key=lambda cause: cause.pressure, default=None)
    return Verdict(limits=limits, nearest=nearest)


def share(part: float, whole: float) -> float:
    """Part of a whole; nothing of nothing is nothing."""
    return part / whole if whole > 0 else 0.0


def _full(queue: Queue) -> bool:
    if queue.load >= FULL:
        return queue.drops > 0 or queue.busiest >= BRIM
    return queue.load_at_drop >= FULL_NOW and queue.dropped >= DROPPED


def _overflown(evidence: Evidence) -> Iterator[Cause]:
    """Sockets without room: what came over the whole network was not taken in time."""
    for each in evidence.sockets:
        if each.role != "generator" and _lossy(each):
            yield Cause(kind=each.role, element=each.node, pressure=1.0, sign=each)


def _full_queues(evidence: Evidence) -> Iterator[Cause]:
    for each in sorted(filter(_full, evidence.queues), key=lambda queue: queue.rate):
        yield _of_queue("rate", each)


def _filters(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.stacks:
        if _lossy(each):
            yield Cause(kind="filter", element=each.node, pressure=1.0, sign=each)


def _short_of_time(*roles: Role) -> Callable[[Evidence], Iterator[Cause]]:
    """Look for nodes that had used up their processor time."""

    def ask(evidence: Evidence) -> Iterator[Cause]:
        for each in evidence.budgets:
            if each.role in roles and each.throttled >= THROTTLED:
                yield _of_budget(each)

    return ask


def _saturated(*roles: Role) -> Callable[[Evidence], Iterator[Cause]]:
    """Look for the busiest of the programs whose thread never rested."""

    def ask(evidence: Evidence) -> Iterator[Cause]:
        busy = [each for each in evidence.programs if each.role in roles and each.demand >= BUSY]
        for each in sorted(busy, key=lambda program: -program.demand)[:1]:
            yield _of_program(each)

    return ask


def _short_queues(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.queues:
        if each.drops >= FEWEST and each.dropped >= DROPPED:
            yield _of_queue("queue", each)


def _waiting(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.connections:
        if each.window >= WINDOW or each.buffer >= BUFFER:
            yield _of_connection(each)


def _losses(evidence: Evidence) -> Iterator[Cause]:
    for each in evidence.losses:
        if each.packets >= FEWEST:
            yield Cause(kind="loss", element=each.name, pressure=1.0, sign=each)


def _lossy(taker: Taker) -> bool:
    return taker.drops >= FEWEST and share(taker.drops, taker.packets) >= DROPPED


_ORDER: Final = (
    _overflown,
    _full_queues,
    _filters,
    _short_of_time("function"),
    _saturated("function"),
    _short_of_time("generator", "receiver"),
    _short_queues,
    _saturated("generator", "receiver"),
    _waiting,
    _losses,
)


def _pressures(evidence: Evidence) -> Iterator[Cause]:
    """How near to its limit everything was that has one."""
    for queue in evidence.queues:
        yield _of_queue("rate", queue)
    for program in evidence.programs:
        yield _of_program(program)
    for budget in evidence.budgets:
        yield _of_budget(budget)
    for connection in evidence.connections:
        yield _of_connection(connection)


def _of_queue(kind: Kind, queue: Queue) -> Cause:
    return Cause(kind=kind, element=queue.name, pressure=max(queue.load, queue.busiest), sign=queue)


def _of_program(program: Program) -> Cause:
    return Cause(kind=program.role, element=program.element, pressure=program.demand, sign=program)


def _of_budget(budget: Budget) -> Cause:
    return Cause(kind=budget.role, element=budget.node, pressure=budget.used, sign=budget)


def _of_connection(connection: Connection) -> Cause:
    waits = connection.window >= connection.buffer
    return Cause(
        kind=connection.taker_role if waits else connection.sender_role,
        element=connection.taker if waits else connection.sender,
        pressure=max(connection.window, connection.buffer),
        sign=connection,
    )
