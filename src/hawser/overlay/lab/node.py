"""Nodes of a lab with their interfaces, and the cables between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hawser.overlay.lab import nat
from hawser.overlay.lab.bottleneck import Bottlenecks
from hawser.overlay.lab.channel import both, shaped
from hawser.overlay.lab.mptcp import endpoints
from hawser.overlay.lab.plan import InterfacePlan, LinkPlan, NodePlan
from hawser.overlay.lab.resolved import Resolved
from hawser.overlay.lab.route import routes, rules
from hawser.overlay.lab.sysctl import IPV6, MANAGED, SWITCHED, settings
from hawser.spec.names import BACKBONE, INTERNET
from hawser.spec.port import Port
from hawser.spec.topology import Internet, Topology, node_ports

Role = Literal["host", "gateway", "internet", "backbone"]


def links(lab: Resolved) -> Iterator[LinkPlan]:
    """Give the cables: those of links, and of WAN ports to the internet."""
    for name, link in lab.topology.links.items():
        yield LinkPlan(name=name, ends=(_end(link.ends[0]), _end(link.ends[1])))
    for port, access in lab.addresses.wan.items():
        yield from nat.links(port, access)


def _end(port: Port) -> tuple[str, str]:
    return port.node, port.name


def nodes(lab: Resolved, added: Bottlenecks) -> Iterator[NodePlan]:
    """Give the scenario's nodes, the internet and the nodes behind its bottlenecks, and NATs."""
    interfaces = _interfaces(lab, added)
    described = lab.topology.nodes
    to = {**routes(lab.topology, lab.addresses), **added.routes}
    by = {**rules(lab.topology, lab.addresses), **added.rules}
    multipath = endpoints(lab.subflows, lab.addresses, switched=lab.switched)
    accesses6 = [port for port, access in lab.addresses.wan.items() if access.ends6]
    tunnelled6 = {port.node for port in accesses6} | ({INTERNET} if accesses6 else set())
    for name, own in interfaces.items():
        role = _role(lab, name)
        forwards = len(own) > 1 if name in described else role != "host"
        own_settings = settings(
            [each.name for each in own],
            forwards=forwards,
            mptcp=name in multipath,
            ecmp=name in described and described[name].ecmp,
        )
        if (lab.topology.ipv6 and name in described) or name in tunnelled6:
            own_settings |= IPV6
        if name in lab.subflows.managed:
            own_settings |= MANAGED
        if lab.switched and name in lab.gateways:
            own_settings |= SWITCHED
        yield NodePlan(
            name=name,
            role=role,
            interfaces=own,
            routes=to.get(name, ()),
            rules=by.get(name, ()),
            mptcp=multipath.get(name, ()),
            sysctl=own_settings | (described[name].sysctl if name in described else {}),
            cpu=described[name].cpu if name in described else None,
        )
    yield from nat.nodes(lab, offload=_wan_offload(lab.topology))


def _role(lab: Resolved, name: str) -> Role:
    if name in lab.gateways:
        return "gateway"
    others: dict[str, Role] = {INTERNET: "internet", BACKBONE: "backbone"}
    return others.get(name, "host") if name not in lab.topology.nodes else "host"


def _interfaces(lab: Resolved, added: Bottlenecks) -> dict[str, tuple[InterfacePlan, ...]]:
    """Give the interfaces of every node, in the order of the plan."""
    offload = _wan_offload(lab.topology)
    found = {
        name: tuple(_interface(lab, port, offload=offload) for port in ports)
        for name, ports in node_ports(lab.topology).items()
    }
    if lab.topology.internet is not None:
        ports = _internet(lab, lab.topology.internet, offload=offload)
        found[INTERNET] = (*ports, *added.interfaces.get(INTERNET, ()))
    behind = {name: own for name, own in added.interfaces.items() if name != INTERNET}
    return found | behind


def _internet(lab: Resolved, internet: Internet, *, offload: bool) -> Iterator[InterfacePlan]:
    for port, access in lab.addresses.wan.items():
        yield InterfacePlan(
            name=access.interface,
            addresses=(access.internet, *(access.ends6 or ())[:1]),
            mtu=internet.mtu_of(port),
            offload=offload,
        )


def _interface(lab: Resolved, port: Port, *, offload: bool) -> InterfacePlan:
    internet = lab.topology.internet
    if internet is not None and port in internet.ports:
        mtu = internet.mtu_of(port)
    else:
        link = next(link for link in lab.topology.links.values() if port in link.ends)
        mtu, offload = link.mtu, not any(map(shaped, both(link)))
    return InterfacePlan(
        name=port.name, addresses=lab.addresses.every(port), mtu=mtu, offload=offload
    )


def _wan_offload(topology: Topology) -> bool:
    """Tell whether WAN ports keep offload: only if the internet shapes nothing."""
    internet = topology.internet
    if internet is None or any(node.region for node in topology.nodes.values()):
        return internet is None
    channels = (internet.path, *internet.ports.values(), *internet.paths.values())
    return not internet.bottlenecks and not any(
        shaped(direction) for channel in channels for direction in both(channel)
    )
