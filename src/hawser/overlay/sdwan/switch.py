"""Flow entries of all gateways: IP address swapping along all member paths (004 section III).

An MPTCP subflow between the agents of two branches has the addresses of two of their WAN ports. The
source gateway replaces them by the addresses of the first WAN hop, and the port by the path's
label. Each transit gateway writes the addresses of the next hop. The destination gateway restores
the agent's addresses and port. In the return direction the label is the source port.

    b1, agent   p11 > p21 0x2004      writes  p11 > p31 0x2114    out of p11
    b3          p11 > p31 0x2114      writes  p31 > p21 0x2114    out of p31
    b2          p31 > p21 0x2114      writes  p11 > p21 0x2004    to the agent

A QUIC connection is a member path by itself. Its agents use the wide label as their ports, so
switches write only addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hawser.overlay.config.entry import Address, Entry, EntryMatch, EntryOutput, EntryWrite
from hawser.overlay.config.gateway import Switch, SwitchPort
from hawser.overlay.sdwan.branch import Branch
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group, Path
from hawser.overlay.sdwan.label import agent_port, label, wide_label
from hawser.spec.overlay import SwitchKind, Transport
from hawser.spec.route import Hop

Direction = Literal["forward", "return"]


def switches(fabric: Fabric) -> dict[str, Switch]:
    """Give the switch of every branch, by its name; empty if the SD-WAN has no switches."""
    if fabric.switch is SwitchKind.NONE:
        return {}
    entries = flow_entries(fabric)
    return {
        name: Switch(kind=fabric.switch.value, ports=_ports(branch), entries=tuple(entries[name]))
        for name, branch in fabric.branches.items()
    }


def flow_entries(fabric: Fabric) -> dict[str, list[Entry]]:
    """Give the flow entries of every branch, by its name, in the order of groups and paths."""
    writer = _Writer(fabric)
    found: dict[str, list[Entry]] = {name: [] for name in fabric.branches}
    for branch, entry in writer.all():
        found[branch].append(entry)
    return found


def _ports(branch: Branch) -> tuple[SwitchPort, ...]:
    return tuple(
        SwitchPort(
            name=name,
            interface=port.interface,
            address=port.address,
            next_hop=port.next_hop,
            address6=port.address6,
            next_hop6=port.next_hop6,
            type=port.type.value,
        )
        for name, port in branch.ports.items()
    )


@dataclass(frozen=True)
class _Leg:
    """One direction of one member path."""

    name: str
    agents: tuple[Address, Address]
    """Source and destination address of its packets at the agents."""
    ways: tuple[Hop, ...]
    """WAN hops in this direction."""
    agent_port: int | None
    """Port of its packets at the agents; None with a wide label, which agents use as well."""
    label: int | tuple[int, int]
    """One port if narrow; source and destination port if wide."""
    direction: Direction
    traffic_class: int


class _Writer:
    """Writes entries."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._wide = fabric.settings.transport is Transport.QUIC

    def all(self) -> Iterator[tuple[str, Entry]]:
        """Give all entries, each with its branch."""
        for group in self._fabric.groups:
            for member, path in enumerate(group.paths, 1):
                for leg in self._legs(group, member, path):
                    yield from self._leg(leg)

    def _legs(self, group: Group, member: int, path: Path) -> Iterator[_Leg]:
        first, second = group.branches
        source, destination = (self._fabric.branches[name].id for name in group.branches)
        back = tuple((into, out) for out, into in reversed(path.hops))
        ways: tuple[tuple[Direction, tuple[Hop, ...]], ...] = (
            ("forward", path.hops),
            ("return", back),
        )
        bits = self._fabric.settings.label_bits
        ports = wide_label(destination, source, member, group.number, bits=bits)
        one, other = path.agents
        for direction, hops in ways:
            wide = ports if direction == "forward" else ports[::-1]
            yield _Leg(
                name=f"{first}>{second} g{group.number} m{member} {direction}",
                agents=(one, other) if direction == "forward" else (other, one),
                ways=hops,
                agent_port=None if self._wide else agent_port(destination, group.number),
                label=wide if self._wide else label(destination, source, member, group.number),
                direction=direction,
                traffic_class=self._fabric.levels.class_of(group.traffic, len(path.hops)),
            )

    def _leg(self, leg: _Leg) -> Iterator[tuple[str, Entry]]:
        """Give the entries of one direction: at the source, at each transit, at the destination."""
        first = leg.ways[0]
        sent = self._match(leg, "agent", leg.agents, leg.agent_port or leg.label)
        yield first[0].branch, self._onwards(leg, "source", sent, first)
        for place, hop in enumerate(leg.ways, 1):
            came = self._match(leg, "wan", self._ends(hop), leg.label)
            arrived = hop[1].branch
            if place == len(leg.ways):
                yield arrived, self._home(leg, came)
            else:
                where = "transit" if place == 1 else f"transit {place}"
                yield arrived, self._onwards(leg, where, came, leg.ways[place])

    def _match(
        self,
        leg: _Leg,
        origin: Literal["agent", "wan"],
        ends: tuple[Address, Address],
        label: int | tuple[int, int],
    ) -> EntryMatch:
        values = {"from": origin, "source": ends[0], "destination": ends[1]}
        if isinstance(label, tuple):
            ports = {"source_port": label[0], "destination_port": label[1]}
        else:
            ports = {"destination_port" if leg.direction == "forward" else "source_port": label}
        return EntryMatch.model_validate(values | ports)

    def _onwards(self, leg: _Leg, where: str, match: EntryMatch, hop: Hop) -> Entry:
        source, destination = self._ends(hop)
        out = hop[0]
        limited = self._fabric.port(out).limited
        return Entry(
            name=f"{leg.name} {where}",
            match=match,
            write=EntryWrite(
                source=source,
                destination=destination,
                port=leg.label if isinstance(leg.label, int) else None,
            ),
            output=EntryOutput(port=out.port, class_=leg.traffic_class if limited else None),
        )

    def _home(self, leg: _Leg, match: EntryMatch) -> Entry:
        source, destination = leg.agents
        return Entry(
            name=f"{leg.name} destination",
            match=match,
            write=EntryWrite(source=source, destination=destination, port=leg.agent_port),
            output="agent",
        )

    def _ends(self, hop: Hop) -> tuple[Address, Address]:
        """Give the addresses that packets have on a WAN hop: the ports' own, never a second one."""
        out, into = map(self._fabric.port, hop)
        return out.agent, into.agent
