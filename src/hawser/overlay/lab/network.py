"""A scenario to the plan of its lab."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from hawser.overlay.lab import openflow
from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.bottleneck import Backbone
from hawser.overlay.lab.chain import chained
from hawser.overlay.lab.channel import both, shaped, shapers
from hawser.overlay.lab.emulator import realised
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.mptcp import endpoints
from hawser.overlay.lab.plan import (
    GatewayDaemon,
    InterfacePlan,
    LinkPlan,
    NetworkPlan,
    NodePlan,
)
from hawser.overlay.lab.resolved import Resolved, resolved
from hawser.overlay.lab.route import routes, rules
from hawser.overlay.lab.sysctl import MANAGED, SWITCHED, settings
from hawser.overlay.lab.tunnel import tunnels
from hawser.overlay.sdwan.gateway import configurations
from hawser.spec.names import INTERNET
from hawser.spec.port import Port
from hawser.spec.topology import Internet, Topology, node_ports
from hawser.spec.workflow import Scenario


def network(scenario: Scenario, facts: Facts | None = None) -> NetworkPlan:
    """Compute everything a driver must make.

    The same arguments always give the same plan.

    Args:
        scenario: one that `spec.load` has checked.
        facts: what the machines can do. Without them the plan does not say who impairs packets.
    """
    lab = resolved(scenario)
    topology, plan = lab.topology, lab.addresses
    backbone = _backbone(topology, plan)
    waiting = shapers(topology, plan, lab.changed, lab.prioritised())
    made = NetworkPlan(
        nodes=tuple(_nodes(lab, backbone)),
        links=(*_links(topology, plan), *(backbone.links() if backbone else ())),
        shapers=(*waiting, *(backbone.shapers() if backbone else ())),
        daemons=tuple(_daemons(lab)),
        addresses=_names(lab),
        tunnels=tuple(tunnels(topology, lab.tunnels, plan)),
        background=tuple(backbone.background()) if backbone else (),
    )
    whole = chained(lab, openflow.switched(made))
    return whole if facts is None else realised(whole, facts)


def _backbone(topology: Topology, plan: Addresses) -> Backbone | None:
    internet = topology.internet
    return Backbone(internet, plan) if internet and internet.bottlenecks else None


def _daemons(lab: Resolved) -> Iterator[GatewayDaemon]:
    """Give one gateway daemon a branch."""
    if lab.fabric is None:
        return
    for branch, config in configurations(lab.fabric).items():
        gateway = lab.fabric.branches[branch].gateway
        yield GatewayDaemon(node=gateway, name=gateway, config=config)


def _nodes(lab: Resolved, backbone: Backbone | None) -> Iterator[NodePlan]:
    topology, plan = lab.topology, lab.addresses
    to, by = routes(topology, plan), rules(topology, plan)
    multipath = endpoints(lab.subflows, plan, switched=lab.switched)
    for name, ports in node_ports(topology).items():
        own = settings(
            [port.name for port in ports], forwards=len(ports) > 1, mptcp=name in multipath
        )
        if name in lab.subflows.managed:
            own |= MANAGED
        if lab.switched and name in lab.gateways:
            own |= SWITCHED
        yield NodePlan(
            name=name,
            role="gateway" if name in lab.gateways else "host",
            interfaces=tuple(_interface(topology, plan, port) for port in ports),
            routes=to[name],
            rules=by.get(name, ()),
            mptcp=multipath.get(name, ()),
            sysctl={**own, **topology.nodes[name].sysctl},
            cpu=topology.nodes[name].cpu,
        )
    if topology.internet is not None:
        yield _internet(topology, topology.internet, plan, backbone)
    if backbone is not None:
        yield from backbone.nodes()


def _internet(
    topology: Topology, internet: Internet, plan: Addresses, backbone: Backbone | None
) -> NodePlan:
    offload = _wan_offload(topology)
    ports = (
        InterfacePlan(name=a.interface, addresses=(a.internet,), mtu=internet.mtu, offload=offload)
        for a in plan.wan.values()
    )
    interfaces = (*ports, *(backbone.interfaces() if backbone else ()))
    names = [interface.name for interface in interfaces]
    sysctl = settings(names, forwards=True, mptcp=False)
    return NodePlan(
        name=INTERNET,
        role="internet",
        interfaces=interfaces,
        routes=tuple(backbone.routes()) if backbone else (),
        rules=tuple(backbone.rules()) if backbone else (),
        sysctl=sysctl,
    )


def _interface(topology: Topology, plan: Addresses, port: Port) -> InterfacePlan:
    internet = topology.internet
    if internet is not None and port in internet.ports:
        mtu, offload = internet.mtu, _wan_offload(topology)
    else:
        link = next(link for link in topology.links.values() if port in link.ends)
        mtu, offload = link.mtu, not any(map(shaped, both(link)))
    return InterfacePlan(name=port.name, addresses=plan.of(port), mtu=mtu, offload=offload)


def _wan_offload(topology: Topology) -> bool:
    """Tell whether WAN ports keep offload: only where the internet shapes nothing."""
    internet = topology.internet
    if internet is None or any(node.region for node in topology.nodes.values()):
        return internet is None
    channels = (internet.path, *internet.ports.values(), *internet.paths.values())
    return not internet.bottlenecks and not any(
        shaped(direction) for channel in channels for direction in both(channel)
    )


def _links(topology: Topology, plan: Addresses) -> Iterator[LinkPlan]:
    for name, link in topology.links.items():
        yield LinkPlan(name=name, ends=(_end(link.ends[0]), _end(link.ends[1])))
    for port, access in plan.wan.items():
        yield LinkPlan(name=port, ends=(_end(port), (INTERNET, access.interface)))


def _end(port: Port) -> tuple[str, str]:
    return port.node, port.name


def _names(lab: Resolved) -> dict[str, IPv4Address]:
    """Give the address of every port, and of every node that has one: its LAN's, else its first."""
    ports, lans = node_ports(lab.topology), lab.lans
    named: dict[str, Port] = {port: port for every in ports.values() for port in every}
    named |= {node: lans.get(node, every[0]) for node, every in ports.items() if every}
    return {name: lab.addresses.of(port)[0].ip for name, port in named.items()}
