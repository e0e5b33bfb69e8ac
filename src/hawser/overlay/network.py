"""A scenario to the plan of its lab."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Literal

from hawser.overlay.address import Addresses, addresses
from hawser.overlay.channel import both, changeable, shaped, shapers
from hawser.overlay.gateway import daemons
from hawser.overlay.mptcp import endpoints, roles
from hawser.overlay.plan import InterfacePlan, LinkPlan, NetworkPlan, NodePlan
from hawser.overlay.route import routes, rules
from hawser.overlay.sysctl import settings
from hawser.overlay.tunnel import tunnels
from hawser.spec.check.reach import address_port
from hawser.spec.check.topology import INTERNET
from hawser.spec.topology import Internet, Topology, node_ports
from hawser.spec.workflow import Scenario


def network(scenario: Scenario) -> NetworkPlan:
    """Compute everything a driver must make.

    The scenario is one that `spec.load` has checked. The same one always gives the same plan.
    """
    connects, listens = roles(scenario)
    plan = addresses(scenario, connects & listens)
    return NetworkPlan(
        nodes=tuple(_nodes(scenario, plan)),
        links=tuple(_links(scenario.topology, plan)),
        shapers=tuple(shapers(scenario, plan)),
        daemons=tuple(daemons(scenario, plan)),
        addresses=_names(scenario, plan),
        tunnels=tuple(tunnels(scenario, plan)),
    )


def _nodes(scenario: Scenario, plan: Addresses) -> Iterator[NodePlan]:
    topology = changeable(scenario)
    to, by = routes(topology, plan), rules(topology, plan)
    multipath = endpoints(scenario, plan)
    for name, ports in node_ports(topology).items():
        interfaces = tuple(_interface(topology, plan, f"{name}.{port}") for port in ports)
        own = settings(ports, forwards=len(ports) > 1, mptcp=name in multipath)
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
        yield _internet(topology, topology.internet, plan)


def _role(scenario: Scenario, name: str) -> Literal["host", "gateway"]:
    branches = scenario.overlay.branches.values() if scenario.overlay else ()
    return "gateway" if any(branch.gateway == name for branch in branches) else "host"


def _internet(topology: Topology, internet: Internet, plan: Addresses) -> NodePlan:
    offload = _wan_offload(topology)
    interfaces = tuple(
        InterfacePlan(name=a.interface, addresses=(a.internet,), mtu=internet.mtu, offload=offload)
        for a in plan.wan.values()
    )
    names = [interface.name for interface in interfaces]
    sysctl = settings(names, forwards=True, mptcp=False)
    return NodePlan(name=INTERNET, role="internet", interfaces=interfaces, sysctl=sysctl)


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
    return not any(shaped(direction) for channel in channels for direction in both(channel))


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
