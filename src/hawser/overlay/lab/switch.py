"""Every flow entry of every gateway: IP address swapping along all member paths (004 section III).

A subflow of Multipath TCP between the agents of two branches has the addresses of two of their WAN
ports. The source gateway writes the addresses of the first WAN hop and the path's label instead,
each transit gateway those of the next hop, and the destination gateway what the agent wrote. On the
way back the label is in the source port.

    b1, agent   p11 > p21 0x2004      writes  p11 > p31 0x2114    out of p11
    b3          p11 > p31 0x2114      writes  p31 > p21 0x2114    out of p31
    b2          p31 > p21 0x2114      writes  p11 > p21 0x2004    to the agent

A connection of QUIC is a member path from the start. Its agents have the wide label as their ports,
and only addresses are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Literal

from hawser.overlay.config.entry import Entry, EntryMatch, EntryOutput, EntryWrite
from hawser.overlay.config.gateway import Switch, SwitchPort
from hawser.overlay.lab.address import Addresses
from hawser.overlay.sdwan.group import Group, Groups, Pair, Path, groups
from hawser.overlay.sdwan.label import agent_port, label, wide_label
from hawser.overlay.sdwan.priority import Levels, levels
from hawser.spec.overlay import Branch, Overlay, SwitchKind, Transport
from hawser.spec.route import switch_kind
from hawser.spec.topology import Topology
from hawser.spec.workflow import Scenario

Direction = Literal["forward", "return"]


def switches(scenario: Scenario, addresses: Addresses) -> Mapping[str, Switch]:
    """Give the switch of every branch, by its name; none where subflows need no switch."""
    overlay, topology = scenario.overlay, scenario.topology
    if overlay is None:
        return {}
    kind = switch_kind(topology, overlay)
    if kind is SwitchKind.NONE:
        return {}
    entries = flow_entries(topology, overlay, addresses)
    return {
        name: Switch(
            kind=kind.value,
            ports=tuple(_ports(topology, branch, addresses)),
            entries=tuple(entries[branch.gateway]),
        )
        for name, branch in overlay.branches.items()
    }


def flow_entries(
    topology: Topology, overlay: Overlay, addresses: Addresses
) -> dict[str, list[Entry]]:
    """Give the flow entries of every gateway, by its name, in the order of groups and paths."""
    every = groups(topology, overlay)
    writer = _Writer(topology, overlay, addresses, levels(every, overlay.priority))
    found: dict[str, list[Entry]] = {b.gateway: [] for b in overlay.branches.values()}
    for gateway, entry in writer.all(every):
        found[gateway].append(entry)
    return found


def _ports(topology: Topology, branch: Branch, addresses: Addresses) -> Iterator[SwitchPort]:
    known = topology.internet.ports if topology.internet else {}
    for name in branch.wan:
        port = f"{branch.gateway}.{name}"
        access = addresses.wan[port]
        yield SwitchPort(
            name=name,
            interface=name,
            address=access.port.ip,
            next_hop=access.internet.ip,
            type=known[port].type.value,
        )


@dataclass(frozen=True)
class _Leg:
    """One direction of one member path."""

    name: str
    agents: tuple[IPv4Address, IPv4Address]
    """What the agent that sends writes, and reads as source and destination."""
    ways: tuple[tuple[str, str], ...]
    """WAN hops in this direction."""
    agent_port: int | None
    """None with a wide label, which the agent has as well."""
    label: int | tuple[int, int]
    """A wide one: source and destination port."""
    direction: Direction
    traffic_class: int


class _Writer:
    """Writes entries."""

    def __init__(
        self, topology: Topology, overlay: Overlay, addresses: Addresses, classes: Levels
    ) -> None:
        self._rated = {
            name
            for name, port in (topology.internet.ports if topology.internet else {}).items()
            if port.rate is not None
        }
        self._ids = {name: branch.id for name, branch in overlay.branches.items()}
        self._addresses = addresses
        self._classes = classes
        self._wide = overlay.transport is Transport.QUIC

    def all(self, every: Groups) -> Iterator[tuple[str, Entry]]:
        """Give all entries, each with its gateway."""
        for pair, there in every.items():
            for group in there:
                for member, path in enumerate(group.paths, 1):
                    for leg in self._legs(pair, group, member, path):
                        yield from self._leg(leg)

    def _legs(self, pair: Pair, group: Group, member: int, path: Path) -> Iterator[_Leg]:
        first, second = pair
        source, destination = self._ids[first], self._ids[second]
        wan = self._addresses.wan
        agents = wan[path.agents[0]].port.ip, wan[path.agents[1]].listen.ip
        back = tuple((into, out) for out, into in reversed(path.hops))
        ways: tuple[tuple[Direction, tuple[tuple[str, str], ...]], ...] = (
            ("forward", path.hops),
            ("return", back),
        )
        ports = wide_label(destination, source, member, group.number)
        for direction, hops in ways:
            wide = ports if direction == "forward" else ports[::-1]
            yield _Leg(
                name=f"{first}>{second} g{group.number} m{member} {direction}",
                agents=agents if direction == "forward" else agents[::-1],
                ways=hops,
                agent_port=None if self._wide else agent_port(destination, group.number),
                label=wide if self._wide else label(destination, source, member, group.number),
                direction=direction,
                traffic_class=self._classes.class_of(group.traffic, len(path.hops)),
            )

    def _leg(self, leg: _Leg) -> Iterator[tuple[str, Entry]]:
        """Give the entries of one direction: at the source, at each transit, at the destination."""
        out, into = leg.ways[0]
        sent = self._match(leg, "agent", leg.agents, leg.agent_port or leg.label)
        yield _node(out), self._onwards(leg, "source", sent, (out, into))
        for place, (left, arrived) in enumerate(leg.ways, 1):
            came = self._match(leg, "wan", (self._ip(left), self._ip(arrived)), leg.label)
            if place == len(leg.ways):
                yield _node(arrived), self._home(leg, came)
            else:
                where = "transit" if place == 1 else f"transit {place}"
                yield _node(arrived), self._onwards(leg, where, came, leg.ways[place])

    def _match(
        self,
        leg: _Leg,
        origin: Literal["agent", "wan"],
        ends: tuple[IPv4Address, IPv4Address],
        label: int | tuple[int, int],
    ) -> EntryMatch:
        values = {"from": origin, "source": ends[0], "destination": ends[1]}
        if isinstance(label, tuple):
            ports = {"source_port": label[0], "destination_port": label[1]}
        else:
            ports = {"destination_port" if leg.direction == "forward" else "source_port": label}
        return EntryMatch.model_validate(values | ports)

    def _onwards(self, leg: _Leg, where: str, match: EntryMatch, hop: tuple[str, str]) -> Entry:
        out, into = hop
        traffic_class = leg.traffic_class if out in self._rated else None
        return Entry(
            name=f"{leg.name} {where}",
            match=match,
            write=EntryWrite(
                source=self._ip(out),
                destination=self._ip(into),
                port=leg.label if isinstance(leg.label, int) else None,
            ),
            output=EntryOutput.model_validate({"port": _port(out), "class": traffic_class}),
        )

    def _home(self, leg: _Leg, match: EntryMatch) -> Entry:
        source, destination = leg.agents
        return Entry(
            name=f"{leg.name} destination",
            match=match,
            write=EntryWrite(source=source, destination=destination, port=leg.agent_port),
            output="agent",
        )

    def _ip(self, port: str) -> IPv4Address:
        """Give the address that a port has on the way, whoever listens on it."""
        return self._addresses.wan[port].port.ip


def _node(port: str) -> str:
    return port.partition(".")[0]


def _port(port: str) -> str:
    return port.partition(".")[2]
