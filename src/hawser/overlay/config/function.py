"""Configurations of `hawserd function` with NSH (schemas/function-config.schema.json).

Forwarder of chains (SFF), forwarding function, firewall and sensor: one format, of which each uses
a part.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal

from pydantic import Field

from hawser.overlay.config.base import (
    OMIT_EMPTY,
    OMIT_NONE,
    Configuration,
    Mac,
    Need,
    Network,
    Part,
    Place,
    PortRange,
    omit,
)
from hawser.overlay.config.health import Fail, Function
from hawser.spec.chain import Action, BlockScope

FIRST_INDEX = 255
"""Service index at the first function (RFC 8300 section 2.3)."""

Spi = Annotated[int, Field(ge=1, le=0xFF_FFFF)]
"""Service path identifier (RFC 8300 section 2.3)."""
Si = Annotated[int, Field(ge=1, le=255)]
"""Service index."""


class ToPort(Part):
    """Out of another port."""

    port: str


class Port(Part):
    """An interface."""

    name: str
    interface: str
    address: Annotated[IPv4Address | None, OMIT_NONE] = None
    """Address of VXLAN-GPE tunnels that end here."""
    trusted: Annotated[bool, omit(value=False)] = False
    """Whether only forwarders and functions are behind it: packets with NSH are accepted."""
    mirror: Annotated[bool, omit(value=False)] = False
    """Whether copies of frames arrive here, for a sensor."""
    otherwise: Annotated[Literal["pass", "drop"] | ToPort, omit("pass")] = "pass"
    """What becomes of packets that are no chain's."""
    queued: Annotated[bool, omit(value=False)] = False
    """Whether packets leave by the kernel's queue."""
    proxy: Annotated[Literal["flows", "rules"] | None, OMIT_NONE] = None
    """How packets from a function that is unaware of chains are recognised."""


class Position(Part):
    """A place on a service path."""

    spi: Spi
    si: Si


class VxlanGpe(Part):
    """A tunnel to another forwarder."""

    remote: IPv4Address
    vni: Annotated[int, omit(0)] = 0


class Target(Part):
    """Where packets go on: to an instance of a function, or to another forwarder."""

    port: str
    mac: Mac
    vxlan_gpe: Annotated[VxlanGpe | None, OMIT_NONE] = None
    back: Annotated[Position | None, OMIT_NONE] = None
    """The place of answers, behind a function that is unaware of chains."""
    instance: Annotated[str | None, OMIT_NONE] = None
    """The instance of `functions` that it is: nothing goes there while that is down."""


class End(Part):
    """Where packets leave their chain."""

    port: str
    mac: Annotated[Mac | None, OMIT_NONE] = None


class Hop(Position):
    """What is done at a place: go on to one of several targets, or leave the chain."""

    to: Annotated[tuple[Target, ...], OMIT_EMPTY] = ()
    end: Annotated[End | None, OMIT_NONE] = None


class Conditions(Part):
    """What packets look like; what is left out matches everything."""

    source: Annotated[Network | None, OMIT_NONE] = None
    destination: Annotated[Network | None, OMIT_NONE] = None
    protocol: Annotated[int | None, OMIT_NONE] = None
    source_ports: Annotated[PortRange | None, OMIT_NONE] = None
    destination_ports: Annotated[PortRange | None, OMIT_NONE] = None
    dscp: Annotated[int | None, OMIT_NONE] = None


class FixedMetadata(Part):
    """Context of MD type 1 (RFC 8300 section 2.4), as hexadecimal digits."""

    fixed: str


class Tlv(Part):
    """One piece of metadata (RFC 8300 section 2.5.1)."""

    class_: Annotated[int, Field(alias="class")]
    type: int
    data: str
    """Hexadecimal digits."""


class VariableMetadata(Part):
    """Context of MD type 2."""

    variable: tuple[Tlv, ...]


class Rule(Conditions):
    """Puts packets that look so on a service path."""

    port: Annotated[str | None, OMIT_NONE] = None
    """Where they come in."""
    spi: Spi
    si: Si = FIRST_INDEX
    metadata: Annotated[FixedMetadata | VariableMetadata | None, OMIT_NONE] = None


class FunctionConfig(Configuration):
    """A function of chains that are steered by NSH."""

    control: Place
    """Unix socket of the control API."""
    ports: tuple[Port, ...]
    forwarders: Annotated[tuple[IPv4Address, ...], OMIT_EMPTY] = ()
    """Addresses from which VXLAN-GPE is accepted, beside those it is sent to."""
    oam: Annotated[Literal["drop", "forward"], omit("drop")] = "drop"
    """What becomes of packets of OAM."""

    def needs(self) -> frozenset[Need]:
        """Give what a machine must have for it."""
        return frozenset({"hawserd", "xdp"})


class ForwarderConfig(FunctionConfig):
    """A function that passes packets on as they are."""


class ServicePath(Part):
    """A path, and the functions that it depends on, at whatever node they are."""

    spi: Spi
    fail: Annotated[Fail, omit("closed")] = "closed"
    """Whether its rules hold (`closed`) or not (`open`) while one of its functions is down."""
    functions: tuple[str, ...]


class Rings(Part):
    """Rings that lead from a forwarder to a sensor."""

    workers: int = 1
    ring_bytes: int = 8 << 20


class SffConfig(FunctionConfig):
    """A forwarder of chains, with their classifier's rules."""

    rules: tuple[Rule, ...] = ()
    hops: tuple[Hop, ...] = ()
    sensor: Annotated[Rings | None, OMIT_NONE] = None
    """Reports packets that enter paths to a sensor on the same machine."""
    functions: Annotated[tuple[Function, ...], OMIT_EMPTY] = ()
    """Functions whose health is checked."""
    service_paths: Annotated[tuple[ServicePath, ...], OMIT_EMPTY] = ()
    """Paths that depend on them."""


class Remember(Part):
    """Lets answers pass."""

    flows: int = 262_144
    """So many are remembered,"""
    idle_s: int = 300
    """for so many seconds after their last packet,"""
    tcp_idle_s: int = 7440
    """or for so many if they are established TCP connections."""
    pick_up: Annotated[bool, omit(value=False)] = False
    """Whether TCP connections may begin in mid-stream."""


class Tls(Part):
    """Certificate of a server."""

    certificate: Place
    key: Place


class Rest(Part):
    """A REST API for rules."""

    listen: str
    token_file: Place
    """Bearer tokens, one a line."""
    tls: Annotated[Tls | None, OMIT_NONE] = None
    """Required off loopback addresses."""


class Firewall(Part):
    """What a firewall lets pass."""

    rules_file: Place
    """Its rules (`FirewallRules`), which it also writes."""
    otherwise: Action = Action.ALLOW
    """What becomes of packets that fit no rule."""
    remember: Annotated[Remember | None, OMIT_NONE] = None
    rest: Annotated[Rest | None, OMIT_NONE] = None


class FirewallConfig(FunctionConfig):
    """A firewall."""

    firewall: Firewall


class Records(Part):
    """Log of a sensor's flow records."""

    folder: Place
    file_bytes: int = 16 << 20
    files: int = 16


class Flows(Part):
    """How a sensor meters flows."""

    workers: int = 1
    ring_bytes: int = 8 << 20
    capacity: int = 1 << 16
    window_ms: int = 2000
    idle_s: int = 600
    early_ms: int = 50


class Trust(Part):
    """How the certificate of a server is verified."""

    authority: Place
    name: str


class RestClient(Part):
    """A firewall, by its REST API."""

    address: str
    token_file: Place
    tls: Annotated[Trust | None, OMIT_NONE] = None


class Evidence(Part):
    """Malicious flows after which more than these is blocked, and records after which one is."""

    flows: int = 5
    within_s: int = 10
    records: int = 2
    packets: int = 8


class Verdicts(Part):
    """What is done with malicious flows."""

    firewalls: tuple[RestClient, ...]
    blocks_file: Place
    """Blocks, which the sensor stores across restarts."""
    scope: BlockScope = BlockScope.SOURCE
    evidence: Annotated[Evidence, omit(Evidence())] = Evidence()
    lifetime_s: int = 300
    renew_rate: Annotated[int, omit(20)] = 20
    """Packets a second of what is blocked from which on its block is renewed."""
    per_minute: int = 60
    blocks_max: int = 4096
    allow: tuple[str, ...] = ()
    """Prefixes of sources that are never blocked."""
    dry_run: bool = False


class Ids(Part):
    """What a sensor does."""

    forwarder: Annotated[Place | None, OMIT_NONE] = None
    """Control socket of the forwarder whose packets it observes; then it has no ports."""
    model: Annotated[Place | None, OMIT_NONE] = None
    records: Annotated[Records | None, OMIT_NONE] = None
    flows: Annotated[Flows, omit(Flows())] = Flows()
    verdicts: Annotated[Verdicts | None, OMIT_NONE] = None


class IdsConfig(FunctionConfig):
    """An intrusion detection sensor."""

    ids: Ids


class FirewallRule(Conditions):
    """Allows or denies packets that look so."""

    id: Annotated[int | None, OMIT_NONE] = None
    action: Action
    note: Annotated[str | None, OMIT_NONE] = None
    """Why it is there, for people."""
    lifetime_s: Annotated[int | None, OMIT_NONE] = None
    """Seconds after which it removes itself; the firewall makes it `expires_s`."""
    expires_s: Annotated[int | None, OMIT_NONE] = None
    """Time at which it removes itself, seconds since 1970."""


class FirewallRules(Part):
    """The file of a firewall's rules (schemas/firewall-rules.schema.json)."""

    rules: tuple[FirewallRule, ...]
    """The first that fits decides."""
