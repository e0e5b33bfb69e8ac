"""A scenario to the plan of its lab."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Literal

from hawser.overlay.lab import openflow
from hawser.overlay.lab.address import Addresses, addresses
from hawser.overlay.lab.bottleneck import Backbone
from hawser.overlay.lab.chain import chained
from hawser.overlay.lab.channel import both, changeable, shaped, shapers
from hawser.overlay.lab.gateway import daemons
from hawser.overlay.lab.mptcp import endpoints, managed, roles
from hawser.overlay.lab.plan import InterfacePlan, LinkPlan, NetworkPlan, NodePlan
from hawser.overlay.lab.route import routes, rules
from hawser.overlay.lab.sysctl import MANAGED, SWITCHED, settings
from hawser.overlay.lab.tunnel import tunnels
from hawser.spec.check.reach import address_port
from hawser.spec.check.topology import INTERNET
from hawser.spec.overlay import SwitchKind
from hawser.spec.route import switch_kind
from hawser.spec.topology import Internet, Topology, node_ports
from hawser.spec.workflow import Scenario


def network(scenario: Scenario) -> NetworkPlan:
    """Compute everything a driver must make.

    The scenario is one that `spec.load` has checked. The same one always gives the same plan.
    """
    connects, listens = roles(scenario)
    plan = addresses(scenario, connects & listens)
    backbone = _backbone(scenario.topology, plan)
    made = NetworkPlan(
        nodes=tuple(_nodes(scenario, plan, backbone)),
        links=(*_links(scenario.topology, plan), *(backbone.links() if backbone else ())),
        shapers=(*shapers(scenario, plan), *(backbone.shapers() if backbone else ())),
        daemons=tuple(daemons(scenario, plan)),
        addresses=_names(scenario, plan),
        tunnels=tuple(tunnels(scenario, plan)),
        background=tuple(backbone.background()) if backbone else (),
    )
    return chained(scenario, openflow.switched(made), plan)


def _backbone(topology: Topology, plan: Addresses) -> Backbone | None:
    internet = topology.internet
    return Backbone(internet, plan) if internet and internet.bottlenecks else None


def _nodes(scenario: Scenario, plan: Addresses, backbone: Backbone | None) -> Iterator[NodePlan]:
    topology = changeable(scenario)
    to, by = routes(topology, plan), rules(topology, plan)
    multipath, switched = endpoints(scenario, plan), _switched(scenario)
    managing = managed(scenario)
    for name, ports in node_ports(topology).items():
        interfaces = tuple(_interface(topology, plan, f"{name}.{port}") for port in ports)
        own = settings(ports, forwards=len(ports) > 1, mptcp=name in multipath)
        if name in managing:
            own |= MANAGED
        if name in switched:
            own |= SWITCHED
        yield NodePlan(
            name=name,
            role=_role(scenario, name),
            interfaces=interfaces,
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


def _switched(scenario: Scenario) -> set[str]:
    """Give the gateways that have a switch."""
    overlay = scenario.overlay
    if overlay is None or switch_kind(scenario.topology, overlay) is SwitchKind.NONE:
        return set()
    return {branch.gateway for branch in overlay.branches.values()}


def _role(scenario: Scenario, name: str) -> Literal["host", "gateway"]:
    branches = scenario.overlay.branches.values() if scenario.overlay else ()
    return "gateway" if any(branch.gateway == name for branch in branches) else "host"


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


def _interface(topology: Topology, plan: Addresses, port: str) -> InterfacePlan:
    name = port.partition(".")[2]
    internet = topology.internet
    if internet is not None and port in internet.ports:
        mtu, offload = internet.mtu, _wan_offload(topology)
    else:
        link = next(link for link in topology.links.values() if port in link.ends)
        mtu, offload = link.mtu, not any(map(shaped, both(link)))
    return InterfacePlan(name=name, addresses=plan.of(port), mtu=mtu, offload=offload)


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


def _end(port: str) -> tuple[str, str]:
    node, _, interface = port.partition(".")
    return node, interface


def _names(scenario: Scenario, plan: Addresses) -> dict[str, IPv4Address]:
    """Give the address of every port, and of every node that has one."""
    ports = node_ports(scenario.topology)
    named = {f"{node}.{port}": f"{node}.{port}" for node in ports for port in ports[node]}
    named |= {node: address_port(scenario, node) for node in ports if ports[node]}
    return {name: plan.of(port)[0].ip for name, port in named.items()}
