"""What the control API answers. Fields that a newer daemon adds are ignored."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """A frozen answer of a daemon."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class PathStatus(Answer):
    """One member path of the `quic` transport."""

    member: int
    state: str
    """`probing`, `up`, `standby`, `degraded` or `down` (docs/design/path-liveness.md)."""
    reflexive: str | None = None
    """Address and port at which the peer sees this gateway."""
    via: str | None = None
    """Branch through which the path leads, if it does not lead directly to the peer."""

    @property
    def answers(self) -> bool:
        """Whether the peer acknowledges what is sent on it."""
        return self.state not in ("probing", "down")


class WaitingPath(Answer):
    """A member path that cannot be used at present."""

    member: int
    reason: str
    """What is missing, such as an address."""


class GroupStatus(Answer):
    """One path group to a peer: one connection of the transport."""

    id: int
    up: bool
    subflows: int = 0
    """Member paths in use."""
    encrypted: bool = False
    reconnects: int = 0
    """How often the connection was made again."""
    remote: str | None = None
    paths: tuple[PathStatus, ...] = ()
    """Empty with other transports than `quic`."""
    waiting: tuple[WaitingPath, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it is up and, where that is known, the peer acknowledges what is sent."""
        return self.up and (not self.paths or any(path.answers for path in self.paths))


class PeerStatus(Answer):
    """Another branch, as this gateway sees it."""

    branch: str
    up: bool
    """Whether packets reach it now: at least one group is up."""
    groups: tuple[GroupStatus, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it answers on some group. Known earlier than that no group is up any more."""
        return self.up and (not self.groups or any(group.answers for group in self.groups))


class DaemonStatus(Answer):
    """What every daemon says of its state (`GET /v1/status`)."""

    version: str
    uptime_s: float
    ready: bool
    """Whether it does its own part: packets pass."""

    @property
    def connected(self) -> bool:
        """Whether it does its part and reaches all others that it should."""
        return self.ready

    @property
    def lacks(self) -> str:
        """Why it is not connected, for people."""
        return "it does not say that it is ready"

    @property
    def others(self) -> tuple[tuple[str, bool], ...]:
        """Whom it should reach, and whether it does."""
        return ()


class GatewayStatus(DaemonStatus):
    """State of a gateway."""

    role: Literal["gateway"]
    branch: str
    peers: tuple[PeerStatus, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What paths wait for, each once."""
        groups = [group for peer in self.peers for group in peer.groups]
        return tuple(dict.fromkeys(path.reason for group in groups for path in group.waiting))

    @property
    def connected(self) -> bool:
        """Whether every group to every peer is up."""
        return self.ready and all(group.up for peer in self.peers for group in peer.groups)

    @property
    def lacks(self) -> str:
        """Groups that are not up."""
        down = [
            f"{peer.branch} (group {group.id})"
            for peer in self.peers
            for group in peer.groups
            if not group.up
        ]
        if not down:
            return super().lacks
        why = f": {'; '.join(self.missing)}" if self.missing else ""
        return f"not connected to {', '.join(down)}{why}"

    @property
    def others(self) -> tuple[tuple[str, bool], ...]:
        """Other branches."""
        return tuple((peer.branch, peer.up) for peer in self.peers)


class WanStatus(DaemonStatus):
    """State of a WAN emulator."""

    role: Literal["wan"]
    realtime: bool
    """Whether it goes before ordinary processes; else packets may be late on a busy machine."""


class SwitchStatus(Answer):
    """An OpenFlow switch, as its controller sees it."""

    name: str
    connected: bool
    installed: bool
    """Whether it has exactly the flows that it should have."""
    flows: int
    fault: str | None = None

    def __str__(self) -> str:
        doing = "connected" if self.connected else "not connected"
        has = "has its flows" if self.installed else "has not its flows"
        fault = f" ({self.fault})" if self.fault else ""
        return f"switch {self.name}: {doing}, {has}{fault}"


class OpenFlowStatus(DaemonStatus):
    """State of an OpenFlow controller. It is ready when every switch is as it should be."""

    role: Literal["openflow"]
    switches: tuple[SwitchStatus, ...] = ()

    @property
    def lacks(self) -> str:
        """What each switch has."""
        return "; ".join(map(str, self.switches))

    @property
    def others(self) -> tuple[tuple[str, bool], ...]:
        """Switches."""
        return tuple((each.name, each.connected and each.installed) for each in self.switches)


class CheckHealth(Answer):
    """What one check of an instance has found."""

    by: str
    """Kind of the check."""
    checks: int
    """How often it was done."""
    failures: int
    """How often it failed."""


class InstanceHealth(Answer):
    """Health of an instance of a function."""

    name: str
    up: bool
    """An instance is taken to be up until checks say otherwise."""
    since_s: float
    """Seconds since it went down or came up."""
    changes: int
    """How often it did."""
    reason: str | None = None
    """Why it is down."""
    checks: tuple[CheckHealth, ...] = ()

    @property
    def confirmed(self) -> bool:
        """Whether every check has succeeded at least once."""
        return all(each.checks > each.failures for each in self.checks)


class FunctionHealth(Answer):
    """Health of a function, which is up when one of its instances is."""

    name: str
    up: bool
    instances: tuple[InstanceHealth, ...]


class FunctionStatus(DaemonStatus):
    """State of a part of service chains."""

    role: Literal["sff", "classifier", "forwarder", "firewall", "ids", "srv6-proxy", "ipsec"]
    functions: tuple[FunctionHealth, ...] = ()
    """Health of the functions that it checks."""

    @property
    def down(self) -> tuple[str, ...]:
        """Instances of functions that are down, each with the reason."""
        return tuple(f"{each.name}: {each.reason}" for each in self._instances if not each.up)

    @property
    def unconfirmed(self) -> tuple[str, ...]:
        """Instances of functions that some check has never found up."""
        return tuple(each.name for each in self._instances if not each.confirmed)

    @property
    def _instances(self) -> tuple[InstanceHealth, ...]:
        return tuple(each for function in self.functions for each in function.instances)


class Tally(Answer):
    """Packets, and bytes of their frames as they came in."""

    packets: int
    bytes: int


class PlaceCounters(Tally):
    """Packets at one place of one path."""

    spi: int
    si: int


class ProxyCounters(Answer):
    """Packets of one segment routing proxy."""

    segment: IPv6Address
    toward: Tally
    """On their way to the function."""
    returned: Tally
    """On their way back."""
    learned: int
    """Packets whose headers were new, and kept."""


class FunctionCounters(Answer):
    """Counters of a part of service chains (`GET /v1/counters`)."""

    hops: tuple[PlaceCounters, ...] = ()
    """Packets that were led on at each place of each path."""
    classified: tuple[PlaceCounters, ...] = ()
    """Packets that entered each path."""
    served: Tally = Tally(packets=0, bytes=0)
    """Packets that a function has served."""
    proxies: tuple[ProxyCounters, ...] = ()
    """What proxies have led to functions and back."""
    engine: str | None = None
    """Of an end of a tunnel: who carries its packets."""
    sealed: Tally = Tally(packets=0, bytes=0)
    """Packets that went into a tunnel, as they are inside."""
    opened: Tally = Tally(packets=0, bytes=0)
    """Packets that came out of one."""
    drops: dict[str, int] = {}
    """Packets dropped, by cause."""


class TraceEvent(Answer):
    """What happened to one packet at a part of service chains."""

    time_ns: int
    """When, on the monotonic clock of this machine."""
    step: str
    """`classified`, `forwarded`, `served`, `ended` or `dropped`."""
    cause: str | None = None
    """Why it was dropped."""
    spi: int
    """Path, 0 for none."""
    si: int
    """Service index as it came in."""
    incoming: Annotated[str, Field(alias="from")]
    """Port it came in by."""
    to: str | None = None
    """Port it went to."""
    source: str | None = None
    destination: str | None = None
    protocol: int
    source_port: int
    destination_port: int


class Trace(Answer):
    """Events since they were last asked for (`GET /v1/trace`)."""

    events: tuple[TraceEvent, ...]


class Quantiles(Answer):
    """A distribution, microseconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float


class WanInterface(Answer):
    """Frames of one interface of a WAN emulator. Every drop here is its own failing."""

    name: str
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drop_ring: int
    """The receive ring was full: the emulator was too slow."""
    drop_oversize: int
    """Larger than the MTU: segmentation offload is on at the sender."""
    drop_send: int
    """The kernel refused to send."""


class WanPath(Answer):
    """Packets of one path of a WAN emulator."""

    name: str
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drop_loss: int
    """Lost as asked."""
    drop_queue: int
    """Found the queue before the bottleneck full, as asked."""
    drop_buffer: int
    """Found no memory: the emulator's own failing."""
    duplicated: int
    reordered: int
    held: int
    """Would have overtaken others by jitter, and waited for them."""
    delay_us: float
    lateness_us: Quantiles
    """How much later than due its packets were sent."""


class WanQueue(Answer):
    """The queue before the bottleneck of one path of a WAN emulator."""

    name: str
    tx_packets: int
    """Have left the bottleneck."""
    tx_bytes: int
    drop_queue: int
    """Found the queue full, as asked."""
    backlog_bytes: int
    """Wait now."""


class WanQueues(Answer):
    """Queues of a WAN emulator (`GET /v1/queues`)."""

    queues: tuple[WanQueue, ...]
    """Of the paths that have a bottleneck."""


class WanCounters(Answer):
    """Counters of a WAN emulator (`GET /v1/counters`)."""

    interfaces: tuple[WanInterface, ...]
    paths: tuple[WanPath, ...]
    """Besides those configured, `wire:NAME:DIRECTION` for what none of them takes."""
    buffered_bytes: int


Status = Annotated[
    WanStatus | GatewayStatus | OpenFlowStatus | FunctionStatus, Field(discriminator="role")
]
"""State of a daemon, told apart by its role."""


class FieldError(Answer):
    """One thing wrong with a configuration."""

    field: str
    found: object = None
    expected: object = None

    def __str__(self) -> str:
        return f"{self.field}: found {self.found!r}, expected {self.expected}"


class TrainRequest(Answer):
    """A train for a gateway to send on an idle path (`POST /v1/trains`). Rates are bit/s."""

    peer: str
    """Branch."""
    group: int
    member: int
    port_bps: int
    """Declared rate of the path's port."""
    size: int
    """Of a frame, bytes, from the Ethernet header to the end of the payload."""
    frames: int
    rate_bps: int
    fill_frames: int
    fill_rate_bps: int


class TrainAnswer(Answer):
    """When the frames of a train were sent and received."""

    size: int
    """As sent: at most what the path takes."""
    sent_us: tuple[int, ...]
    """Since the path's connection began; only frames that were sent in time."""
    received_us: tuple[int | None, ...]
    """Since the connection began at the peer; None for a frame that was lost."""


class SensorPackets(Answer):
    """Packets at an intrusion detection sensor."""

    observed: int
    lost: int
    """Packets that no worker knows of, since its ring was full. They were forwarded."""


class SensorFlows(Answer):
    """Flows that a sensor has seen."""

    begun: int
    records: int
    """Records made."""


class SensorRecords(Answer):
    """What became of a sensor's records."""

    written: int
    dropped: int
    """Lost, since the writer was behind."""
    failed: int
    """Lost, since the disk refused them."""


class SensorStatus(Answer):
    """What an intrusion detection sensor has counted since it started (`GET /v1/ids`)."""

    packets: SensorPackets
    flows: SensorFlows
    records: SensorRecords | None = None
    """None without a record log."""
