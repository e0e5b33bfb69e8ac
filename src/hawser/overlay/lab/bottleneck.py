"""Bottlenecks of a plan: links from the internet to a backbone node, and a fast link back.

                  x0, x1, ...: one per bottleneck
    WAN ports -- internet ====================== backbone
                        back ---------------- up      as fast as the machine

Forward packets of a pair cross `x0` from the internet to the backbone and return over the fast
link. Reverse packets take the fast link first, then `x0` from the backbone to the internet. A
constant flow of cross traffic runs from one end of `x0` to the other. TCP cross traffic comes from
a separate host with a fast link to both nodes, so that its sender detects losses at `x0` as any
sender does. On the node that drops the packets, the queue would tell TCP of each drop; TCP then
backs off, and gives up a connection after 15 probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network
from itertools import islice
from typing import Literal

from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.channel import QUEUE
from hawser.overlay.lab.plan import (
    ClassPlan,
    CrossTrafficPlan,
    InterfacePlan,
    LinkPlan,
    RoutePlan,
    RulePlan,
    ShaperPlan,
)
from hawser.overlay.lab.route import EVERYTHING
from hawser.spec.address import BOTTLENECKS
from hawser.spec.names import BACKBONE, INTERNET, OTHERS
from hawser.spec.port import Port
from hawser.spec.topology import Bottleneck, CrossTraffic, Internet
from hawser.spec.units import Rate, Size

FAST = ("back", "up")
"""Interfaces of the fast link, at the internet and at the backbone."""
_FAST_TABLE = 1000
"""Routing table of the fast link; those of the bottlenecks follow."""
_ETHERNET = 14
"""Bytes of a frame's header, which rates include."""
_FLOW_QUEUE = Size(1_000_000)
"""Holds any burst with which a constant flow catches up. The class counts what was sent in time."""

Way = Literal["forward", "reverse"]
_NODES: dict[Way, tuple[str, str]] = {
    "forward": (INTERNET, BACKBONE),
    "reverse": (BACKBONE, INTERNET),
}
"""Source and destination node of each direction."""
_ENTRANCES: dict[Way, str] = {"forward": "near", "reverse": "far"}
"""Name of both interfaces between the cross-traffic host and a direction's first node."""


@dataclass(frozen=True)
class _Crossing:
    """One bottleneck with its place in the plan."""

    name: str
    bottleneck: Bottleneck
    interface: str
    here: IPv4Interface
    """The internet's address on it."""
    there: IPv4Interface
    """The backbone's address on it."""
    table: int

    def traffic(self) -> Iterator[tuple[Way, CrossTraffic]]:
        """Give the cross traffic in each direction."""
        if (forward := self.bottleneck.cross_traffic) is not None:
            yield "forward", forward
        if (reverse := self.bottleneck.reverse.cross_traffic) is not None:
            yield "reverse", reverse

    def ends(self, way: Way) -> tuple[IPv4Interface, IPv4Interface]:
        """Give its addresses, the sending end of a direction first."""
        return (self.here, self.there) if way == "forward" else (self.there, self.here)


@dataclass(frozen=True)
class Bottlenecks:
    """What the bottlenecks of an internet add to a plan, partly by node."""

    interfaces: Mapping[str, tuple[InterfacePlan, ...]] = field(default_factory=dict)
    routes: Mapping[str, tuple[RoutePlan, ...]] = field(default_factory=dict)
    rules: Mapping[str, tuple[RulePlan, ...]] = field(default_factory=dict)
    links: tuple[LinkPlan, ...] = ()
    shapers: tuple[ShaperPlan, ...] = ()
    cross_traffic: tuple[CrossTrafficPlan, ...] = ()


def bottlenecks(internet: Internet | None, addresses: Addresses) -> Bottlenecks:
    """Give the additions for the internet node and the nodes behind it."""
    if internet is None or not internet.bottlenecks:
        return Bottlenecks()
    made = _Backbone(internet, addresses)
    return Bottlenecks(
        interfaces=made.interfaces(),
        routes=made.routes(),
        rules=made.rules(),
        links=tuple(made.links()),
        shapers=tuple(made.shapers()),
        cross_traffic=tuple(made.cross_traffic()),
    )


class _Backbone:
    """The bottlenecks of an internet that has at least one, and the nodes behind it."""

    def __init__(self, internet: Internet, addresses: Addresses) -> None:
        subnets = BOTTLENECKS.subnets(new_prefix=30)
        self._mtu = internet.mtu
        self._addresses = addresses
        self._back, self._up = _ends(next(subnets).hosts())
        self._crossings = [
            _Crossing(name, each, f"x{index}", *_ends(subnet.hosts()), _FAST_TABLE + 1 + index)
            for index, ((name, each), subnet) in enumerate(
                zip(internet.bottlenecks.items(), subnets, strict=False)
            )
        ]
        self._connected = {
            way: [each for each in self._crossings if _connects(each, way)] for way in _NODES
        }
        self._entrances = {
            way: _ends(subnet.hosts())
            for way, subnet in zip(_NODES, subnets, strict=False)
            if self._connected[way]
        }

    def interfaces(self) -> dict[str, tuple[InterfacePlan, ...]]:
        """Give the interfaces of every node; the cross-traffic host exists only for TCP."""
        others = tuple(
            self._interface(_ENTRANCES[way], own) for way, (_, own) in self._entrances.items()
        )
        found = {
            INTERNET: (
                self._interface(FAST[0], self._back),
                *(self._interface(each.interface, each.here) for each in self._crossings),
                *self._entrance("forward"),
            ),
            BACKBONE: (
                self._interface(FAST[1], self._up),
                *(self._interface(each.interface, each.there) for each in self._crossings),
                *self._entrance("reverse"),
            ),
        }
        return found | {OTHERS: others} if others else found

    def _entrance(self, way: Way) -> Iterator[InterfacePlan]:
        if way in self._entrances:
            yield self._interface(_ENTRANCES[way], self._entrances[way][0])

    def routes(self) -> dict[str, tuple[RoutePlan, ...]]:
        """Give the routes of every node: one table for each link between internet and backbone."""
        return {
            INTERNET: (
                _default(self._up, FAST[0], _FAST_TABLE),
                *(_default(each.there, each.interface, each.table) for each in self._crossings),
            ),
            BACKBONE: (
                _default(self._back, FAST[1], None),
                *(_default(each.here, each.interface, each.table) for each in self._crossings),
            ),
            OTHERS: tuple(
                RoutePlan(
                    to=IPv4Network(each.ends(way)[1].ip),
                    via=self._entrances[way][0].ip,
                    interface=_ENTRANCES[way],
                )
                for way, crossings in self._connected.items()
                for each in crossings
            ),
        }

    def rules(self) -> dict[str, tuple[RulePlan, ...]]:
        """Give the rules that lead packets to the backbone, and back over the right link."""
        back = (
            self._rule(second, first, FAST[1], each.table)
            for each in self._crossings
            for first, second in each.bottleneck.between
        )
        return {
            INTERNET: (*self._towards(), *self._answers("reverse")),
            BACKBONE: (*back, *self._answers("forward")),
        }

    def _towards(self) -> Iterator[RulePlan]:
        for each in self._crossings:
            for first, second in each.bottleneck.between:
                yield self._rule(first, second, self._addresses.wan[first].interface, each.table)
                yield self._rule(second, first, self._addresses.wan[second].interface, _FAST_TABLE)

    def _answers(self, way: Way) -> Iterator[RulePlan]:
        """Lead replies to TCP cross traffic back over the bottleneck that it crosses."""
        for each in self._connected[way]:
            yield RulePlan(source=IPv4Network(each.ends(way)[1].ip), table=each.table)

    def links(self) -> Iterator[LinkPlan]:
        """Give the links between these nodes; names from a scenario file contain no colon."""
        yield LinkPlan(name=f"{INTERNET}:{BACKBONE}", ends=_both(*FAST))
        for each in self._crossings:
            yield LinkPlan(
                name=f"bottleneck:{each.name}", ends=_both(each.interface, each.interface)
            )
        for way in self._entrances:
            node, name = _NODES[way][0], _ENTRANCES[way]
            yield LinkPlan(name=f"{OTHERS}:{node}", ends=((OTHERS, name), (node, name)))

    def shapers(self) -> Iterator[ShaperPlan]:
        """Give the rate and queue of every bottleneck, forward first."""
        for each in self._crossings:
            forward, reverse = each.bottleneck, each.bottleneck.reverse
            queue = forward.queue or QUEUE
            yield _shaper(each, "forward", forward.rate, queue, forward.cross_traffic)
            rate = reverse.rate or forward.rate
            yield _shaper(each, "reverse", rate, reverse.queue or queue, reverse.cross_traffic)

    def cross_traffic(self) -> Iterator[CrossTrafficPlan]:
        """Give the cross traffic."""
        for each in self._crossings:
            for way, traffic in each.traffic():
                yield self._traffic(each, way, traffic)

    def _traffic(self, each: _Crossing, way: Way, traffic: CrossTraffic) -> CrossTrafficPlan:
        shaper, target = _NODES[way]
        own, remote = each.ends(way)
        source, local = (shaper, own) if traffic.tcp is None else (OTHERS, self._entrances[way][1])
        return CrossTrafficPlan(
            name=f"{each.name}-{way}",
            shaper=shaper,
            counter=_class_name(each, way, traffic),
            source=source,
            target=target,
            local=local.ip,
            remote=remote.ip,
            frame=self._mtu + _ETHERNET,
            udp=traffic.udp,
            tcp=traffic.tcp,
        )

    def _interface(self, name: str, address: IPv4Interface) -> InterfacePlan:
        return InterfacePlan(name=name, addresses=(address,), mtu=self._mtu, offload=False)

    def _rule(self, source: Port, target: Port, incoming: str, table: int) -> RulePlan:
        wan = self._addresses.wan
        return RulePlan(
            source=wan[source].source, to=wan[target].source, incoming=incoming, table=table
        )


def _ends(hosts: Iterator[object]) -> tuple[IPv4Interface, IPv4Interface]:
    first, second = (IPv4Interface(f"{host}/30") for host in islice(hosts, 2))
    return first, second


def _connects(each: _Crossing, way: Way) -> bool:
    return any(way == found and traffic.tcp is not None for found, traffic in each.traffic())


def _both(here: str, there: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (INTERNET, here), (BACKBONE, there)


def _default(via: IPv4Interface, interface: str, table: int | None) -> RoutePlan:
    return RoutePlan(to=EVERYTHING, via=via.ip, interface=interface, table=table)


def _shaper(
    each: _Crossing, way: Way, rate: Rate, queue: Size, cross_traffic: CrossTraffic | None
) -> ShaperPlan:
    """Give the shaper of one direction.

    A flow of constant rate has priority. In a shared queue, TCP would displace part of it: with
    2 of 100 Mbit/s left for TCP, TCP got 5.4.
    """
    node, own = _NODES[way][0], each.ends(way)[0]
    name = f"bottleneck:{each.name}:{way}"
    if cross_traffic is None or cross_traffic.udp is None:
        classes: tuple[ClassPlan, ...] = (ClassPlan(name=name, rate=rate, queue=queue),)
    else:
        flow, source = _class_name(each, way, cross_traffic), IPv4Network(own.ip)
        classes = (
            ClassPlan(name=flow, source=source, queue=_FLOW_QUEUE),
            ClassPlan(name=f"{name}:paths", priority=1, queue=queue),
        )
    return ShaperPlan(node=node, interface=each.interface, name=name, rate=rate, classes=classes)


def _class_name(each: _Crossing, way: Way, cross_traffic: CrossTraffic) -> str:
    """Give the name of the class that counts cross traffic."""
    name = f"bottleneck:{each.name}:{way}"
    return name if cross_traffic.udp is None else f"{name}:cross_traffic"
