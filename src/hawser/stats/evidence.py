"""What was recorded during a measurement of everything in it that has a limit."""

from __future__ import annotations

from typing import Literal

from hawser.spec.model import Model

Role = Literal["generator", "receiver", "function"]
"""Part a node plays in a measurement: it sends the traffic, receives it, or is on its way."""


def share(part: float, whole: float) -> float:
    """Part of a whole; 0 if the whole is 0."""
    return part / whole if whole > 0 else 0.0


class Queue(Model):
    """One direction of a link, port or path that has a rate limit."""

    name: str
    rate: float
    """Mbit/s."""
    load: float
    """Mean share of the rate used while traffic flowed."""
    peak: float
    """Largest share of the rate used."""
    packets: int
    drops: int
    load_at_drop: float = 0.0
    """Share of the rate used when packets were dropped."""
    drop_span: float = 1.0
    """Share of the time from the first drop to the last. Short if only the start of a connection
    overflowed the queue."""
    acks: bool = False
    """Whether the measurement sends only acknowledgements this way."""
    frame: float = 0.0
    """Mean frame, bytes; 0 if unknown."""

    @property
    def drop_ratio(self) -> float:
        """Share of its packets that were dropped."""
        return share(self.drops, self.packets + self.drops)


class Program(Model):
    """The busiest thread of a program, in shares of the time."""

    element: str
    """Its node; for daemons, the daemon."""
    name: str
    role: Role
    demand: float
    """Running or runnable."""
    cpu: float
    """Running."""


class CpuQuota(Model):
    """The CPU quota of a node, used by all its programs together."""

    node: str
    role: Role
    used: float
    """Share of the quota that was used."""
    throttled: float
    """Share of the periods in which programs were throttled."""


class DropPoint(Model):
    """Where a node may drop packets that it received: its IP stack or its sockets."""

    node: str
    role: Role
    packets: int
    """Received by the stack, or delivered to the sockets."""
    drops: int


class Connection(Model):
    """The TCP connections of a sending node and what limited them."""

    sender: str
    sender_role: Role
    receiver: str
    receiver_role: Role
    busy: float = 1.0
    """Share of the time with data that was not acknowledged yet, of the busiest connection. In the
    rest the program supplied nothing."""
    window: float
    """Share of the busy time limited by the receive window."""
    buffer: float
    """Share of the busy time limited by the send buffer, which is too small for the path."""
    unread: float = 0.0
    """Share of the receive buffer that the receiving program left unread, on average."""

    @property
    def window_limited(self) -> float:
        """Share of the time limited by the receive window."""
        return self.busy * self.window

    @property
    def buffer_limited(self) -> float:
        """Share of the time limited by the send buffer."""
        return self.busy * self.buffer

    @property
    def network_limited(self) -> float:
        """Share of the time limited by congestion control, that is, by the network."""
        return self.busy * max(0.0, 1 - self.window - self.buffer)


class Loss(Model):
    """Packets lost on a path by its configured loss."""

    name: str
    packets: int
    """Lost."""
    sent: int = 0
    """Lost or not; 0 if unknown."""


class Offered(Model):
    """The load that a measurement offers, if it does not send as fast as it can."""

    generator: str
    """The node that offers it."""
    rate: float
    """Mbit/s."""
    delivered: float | None = None
    """Share that arrived; None if unknown."""


class Evidence(Model):
    """What was recorded during one measurement, of elements that its packets pass."""

    queues: tuple[Queue, ...] = ()
    programs: tuple[Program, ...] = ()
    cpu_quotas: tuple[CpuQuota, ...] = ()
    stacks: tuple[DropPoint, ...] = ()
    """IP stacks; what they drop is dropped by a filter or policer."""
    sockets: tuple[DropPoint, ...] = ()
    connections: tuple[Connection, ...] = ()
    losses: tuple[Loss, ...] = ()
    offered: Offered | None = None
    reacts: bool = True
    """Whether the sender slows down if packets are lost, as TCP does."""


Observation = Queue | Program | CpuQuota | DropPoint | Connection | Loss | Offered
"""What was recorded of one element."""
