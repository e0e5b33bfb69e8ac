"""Configuration of the OpenFlow controller, and the port numbers and addresses of its switches.

Flow entries are the same for all kinds of switch; `flow` translates them to OpenFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Self

from pydantic import Field, model_validator

from hawser.overlay.config.base import OMIT_NONE, Configuration, Mac, Need, Part, Place
from hawser.overlay.config.entry import Entry, EntryMatch

FIRST_WAN = 1
FIRST_OUT = 501
FIRST_AGENT = 1001
"""OpenFlow number of the first port of each kind: WAN ports, where packets arrive; output ports to
WAN ports; ports to the agent, in both directions."""

_LOCAL = 0x02
"""First byte of locally administered addresses (IEEE 802, section 8)."""


class OpenFlowPort(Part):
    """A WAN port, and the port to the agent that has its addresses."""

    name: str
    addresses: Annotated[tuple[IPv4Address, ...], Field(min_length=1)]
    next_hop: IPv4Address
    station: Annotated[Mac | None, OMIT_NONE] = None
    """Its Ethernet address; None: as in labs, it follows from the first address (`mac`)."""
    next_station: Annotated[Mac | None, OMIT_NONE] = None
    """That of the next hop; None: it follows from its address."""

    @property
    def mac(self) -> str:
        """Its Ethernet address."""
        return self.station or mac(self.addresses[0])

    @property
    def next_mac(self) -> str:
        """The Ethernet address of the next hop."""
        return self.next_station or mac(self.next_hop)

    def sender(self, classid: int | None) -> str:
        """Give the source address of frames of a shaper's class. Real addresses carry no mark."""
        return self.station or mac(self.addresses[0], mark(classid))


class Listen(Part):
    """Where switches on other machines connect, over TLS."""

    address: IPv4Address | IPv6Address
    """Address at which the controller listens."""
    port: Annotated[int, Field(ge=1, le=65535)] = 6653
    """TCP port."""
    certificate: Place
    """The controller's certificate, PEM."""
    key: Place
    """Its private key."""
    ca: Place
    """Certificate of the authority that signs those of the switches."""


class Role(Part):
    """The role of this controller where switches have several (OpenFlow 1.3.5 section 6.3.2)."""

    master: bool
    """Whether it changes flows; otherwise it only reads them."""
    generation: Annotated[int, Field(ge=0, le=2**63 - 1)]
    """Grows by one with each change of the master. Switches refuse a master of an older one."""


class OpenFlowSwitch(Part):
    """One switch."""

    name: str
    """The gateway's node. Over TLS, its certificate has this DNS name."""
    socket: Annotated[Place | None, OMIT_NONE] = None
    """Unix socket on which the controller listens for this switch; None: it connects over TLS, or
    by `relay`."""
    ports: Annotated[tuple[OpenFlowPort, ...], Field(min_length=1, max_length=64)]
    entries: tuple[Entry, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    def place(self, port: str) -> int:
        """Give the place of a port by its name, from 0."""
        return next(place for place, each in enumerate(self.ports) if each.name == port)

    def holder(self, address: IPv4Address | IPv6Address) -> int:
        """Give the place of the port that has this address, from 0."""
        return next(place for place, port in enumerate(self.ports) if address in port.addresses)


class ControllerConfig(Configuration):
    """Configuration of an OpenFlow controller (schemas/openflow-config.schema.json)."""

    control: Place
    """Unix socket of the control API."""
    poll_s: Annotated[float, Field(gt=0, le=3600)] = 1.0
    """Seconds between readings of the switches' counters."""
    listen: Annotated[Listen | None, OMIT_NONE] = None
    """Where switches without a socket connect."""
    relay: Annotated[Place | None, OMIT_NONE] = None
    """Unix socket by which the network's controller passes the connections of such switches on;
    each begins with the switch's name and a newline."""
    role: Annotated[Role | None, OMIT_NONE] = None
    """None for the only controller."""
    switches: tuple[OpenFlowSwitch, ...] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for what in ("name", "socket"):
            found = [getattr(switch, what) for switch in self.switches]
            values = [value for value in found if value is not None]
            if len(set(values)) != len(values):
                raise ValueError(f"expected another {what} for every switch")
        lacking = [switch.name for switch in self.switches if switch.socket is None]
        if lacking and self.listen is None and self.relay is None:
            raise ValueError(f"expected listen, relay, or a socket of switch {lacking[0]}")
        return self

    def needs(self) -> frozenset[Need]:
        """Give the requirements of the controller; switches have their own."""
        return frozenset()


def agent_port(place: int) -> str:
    """Name the port towards the agent. In labs, only names made here contain an underscore."""
    return f"mpa_{place}"


def inner_port(place: int) -> str:
    """Name the switch's end of the cable to the agent."""
    return f"ofs_{place}"


def output_port(place: int) -> str:
    """Name the switch's end of the cable to a WAN port."""
    return f"out_{place}"


def behind_port(place: int) -> str:
    """Name the far end of the cable to a WAN port, redirected to that port."""
    return f"wan_{place}"


def mac(address: IPv4Address, mark: int = 0) -> str:
    """Give the Ethernet address for an IPv4 address in a lab.

    Both ends of a WAN link use it, so no addresses need to be resolved. `mark` (0 to 255) gives
    further addresses of the same port, by which the egress shaper identifies classes.
    """
    return ":".join(f"{byte:02x}" for byte in (_LOCAL, mark, *address.packed))


def mark(classid: int | None) -> int:
    """Give the mark of a shaper's class in the source Ethernet address; 0 means none.

    Raises:
        ValueError: the class's minor number is not 1 to 255.
    """
    if classid is None:
        return 0
    minor = classid & 0xFFFF
    if not 1 <= minor <= 0xFF:
        raise ValueError(f"class {classid:#x}: found minor number {minor:#x}, expected 1 to 0xff")
    return minor


def _problems(switch: OpenFlowSwitch) -> Iterator[str]:
    names = [port.name for port in switch.ports]
    addresses = [address for port in switch.ports for address in port.addresses]
    if len(set(names)) != len(names):
        yield "expected another name for every port"
    if len(set(addresses)) != len(addresses):
        yield "expected every address at one port only"
    matches: dict[EntryMatch, str] = {}
    for entry in switch.entries:
        yield from _entry_problems(entry, names, addresses)
        other = matches.setdefault(entry.match, entry.name)
        if other != entry.name:
            yield f"entry {entry.name}: matches the same packets as entry {other}"


def _entry_problems(entry: Entry, names: list[str], addresses: list[IPv4Address]) -> Iterator[str]:
    match, output = entry.match, entry.output
    own = match.source if match.from_ == "agent" else match.destination
    if own not in addresses:
        yield f"entry {entry.name}: found {own} from the {match.from_}, expected an own address"
    if output == "agent":
        if entry.write.destination not in addresses:
            yield f"entry {entry.name}: {entry.write.destination} is no address of the agent"
        return
    if output.port not in names:
        yield f"entry {entry.name}: found port {output.port!r}, expected one of {names}"
    try:
        mark(output.class_)
    except ValueError as error:
        yield f"entry {entry.name}: {error}"
