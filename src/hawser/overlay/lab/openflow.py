"""Adds the gateways' OpenFlow switches to a plan.

A switch takes over the WAN ports from the kernel. The WAN addresses move to ports towards the
agent, one per WAN port, together with everything that refers to them: routes, rules, MPTCP
endpoints. Shapers and their counters stay at the WAN ports.

 gateway's stack (multipath agent)
    mpa_0          mpa_1            hold the WAN addresses
      |              |
    ofs_0          ofs_1
+---------------------------+
|   OFS (bridge `ofs_br`)   |------ OpenFlow 1.3 ------ OpenFlow controller
+---------------------------+
      |              |
      a              b              WAN ports, shaped
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import TypeVar

from hawser.overlay.config.gateway import Switch
from hawser.overlay.config.openflow import (
    FIRST_AGENT,
    FIRST_OUT,
    FIRST_WAN,
    ControllerConfig,
    OpenFlowPort,
    OpenFlowSwitch,
    agent_port,
    behind_port,
    inner_port,
    mac,
    output_port,
)
from hawser.overlay.lab.plan import (
    Daemon,
    GatewayDaemon,
    InterfacePlan,
    LinkPlan,
    MptcpEndpoint,
    NetworkPlan,
    NodePlan,
    OpenFlowDaemon,
    RoutePlan,
    ShaperPlan,
    SwitchPlan,
)
from hawser.overlay.lab.sysctl import ALIKE
from hawser.spec.names import CONTROLLER

_Named = TypeVar("_Named", RoutePlan, MptcpEndpoint)

_DEAF = {"arp_ignore": "8", "drop_unicast_in_l2_multicast": "1"}
"""Settings that keep the kernel from answering on the switch's ports."""


def switched(plan: NetworkPlan) -> NetworkPlan:
    """Add an OpenFlow switch to the gateways that ask for one, and one controller for all of them.

    A gateway asks for it by a switch of kind `openflow` in its daemon's configuration; the entries
    move to the controller's configuration. If no gateway asks, the plan is unchanged. Agents of a
    network's controller make the switches themselves: next hops only have to be as on a wire.
    """
    asked = {each.node: switch for each in plan.daemons if (switch := _asked(each))}
    if not asked:
        return plan
    if plan.controller is not None:
        hops = {port.next_hop for each in asked.values() for port in each.ports if port.next_hop}
        return _wired(plan, hops)
    nodes = {node.name: node for node in plan.nodes}
    switches = [_switch(nodes[name], switch) for name, switch in asked.items()]
    ports = {name: _places(switch) for name, switch in asked.items()}
    hops = {port.next_hop for each in switches for port in each.ports}
    return plan.model_copy(
        update={
            "nodes": (*(_node(node, ports.get(node.name, {}), hops) for node in plan.nodes), _SSC),
            "links": (*plan.links, *(link for each in switches for link in _links(each))),
            "shapers": tuple(_shaper(each, ports.get(each.node, {})) for each in plan.shapers),
            "daemons": (_controller(switches), *map(_daemon, plan.daemons)),
            "switches": tuple(
                _plan(number, each, ports[each.name]) for number, each in enumerate(switches, 1)
            ),
        }
    )


def _wired(plan: NetworkPlan, hops: set[IPv4Address]) -> NetworkPlan:
    """Turn off offload at next hops, which keep their Ethernet addresses."""
    nodes = (
        node.model_copy(
            update={
                "interfaces": tuple(
                    each.model_copy(update={"offload": False}) if hops & set(each.ipv4) else each
                    for each in node.interfaces
                )
            }
        )
        for node in plan.nodes
    )
    return plan.model_copy(update={"nodes": tuple(nodes)})


_SSC = NodePlan(name=CONTROLLER, role="controller", interfaces=(), sysctl=dict(ALIKE))


def _asked(daemon: Daemon) -> Switch | None:
    switch = daemon.config.switch if isinstance(daemon, GatewayDaemon) else None
    return switch if switch and switch.kind == "openflow" else None


def _daemon(daemon: Daemon) -> Daemon:
    """Configure a gateway with its ports towards the agent, and without flow entries."""
    switch = _asked(daemon)
    if switch is None:
        return daemon
    ports = tuple(
        port.model_copy(update={"interface": agent_port(place)})
        for place, port in enumerate(switch.ports)
    )
    left = switch.model_copy(update={"ports": ports, "entries": ()})
    config = daemon.config.model_copy(update={"switch": left})
    return daemon.model_copy(update={"config": config})


def _places(switch: Switch) -> dict[str, int]:
    """Give the index of each WAN port by its interface."""
    return {port.interface: place for place, port in enumerate(switch.ports)}


def _switch(node: NodePlan, switch: Switch) -> OpenFlowSwitch:
    addresses = {each.name: each.ipv4 for each in node.interfaces}
    return OpenFlowSwitch(
        name=node.name,
        socket=PurePosixPath(f"{node.name}.ofs/of"),
        ports=tuple(
            OpenFlowPort(
                name=port.name, addresses=addresses[port.interface], next_hop=port.next_hop
            )
            for port in switch.ports
        ),
        entries=switch.entries,
    )


def _shaper(shaper: ShaperPlan, ports: Mapping[str, int]) -> ShaperPlan:
    """Classify at WAN ports by source Ethernet address (`overlay.config.openflow.mark`)."""
    if shaper.interface not in ports:
        return shaper
    return shaper.model_copy(update={"sender_marks": True})


def _controller(switches: list[OpenFlowSwitch]) -> OpenFlowDaemon:
    config = ControllerConfig(control=PurePosixPath(f"{CONTROLLER}.sock"), switches=tuple(switches))
    return OpenFlowDaemon(node=CONTROLLER, name=CONTROLLER, config=config)


def _plan(number: int, switch: OpenFlowSwitch, ports: Mapping[str, int]) -> SwitchPlan:
    wan = tuple((interface, FIRST_WAN + place) for interface, place in ports.items())
    out = tuple((output_port(place), FIRST_OUT + place) for place in ports.values())
    agent = tuple((inner_port(place), FIRST_AGENT + place) for place in ports.values())
    return SwitchPlan(
        node=switch.name, datapath_id=number, ports=(*wan, *out, *agent), socket=str(switch.socket)
    )


def _links(switch: OpenFlowSwitch) -> Iterator[LinkPlan]:
    for place in range(len(switch.ports)):
        for one, other in (
            (agent_port(place), inner_port(place)),
            (output_port(place), behind_port(place)),
        ):
            ends = ((switch.name, one), (switch.name, other))
            yield LinkPlan(name=f"{switch.name}.{one}", ends=ends)


def _node(node: NodePlan, ports: Mapping[str, int], hops: set[IPv4Address]) -> NodePlan:
    """Add a gateway's ports towards the agent; set the Ethernet addresses of next hops."""
    interfaces = [_next_hop(interface, hops) for interface in node.interfaces]
    if not ports:
        return node.model_copy(update={"interfaces": tuple(interfaces)})
    moved = {interface: agent_port(place) for interface, place in ports.items()}
    return node.model_copy(
        update={
            "interfaces": tuple(each for i in interfaces for each in _split(i, ports)),
            "redirects": tuple((behind_port(place), name) for name, place in ports.items()),
            "routes": tuple(_moved(route, moved) for route in node.routes),
            "mptcp": tuple(_moved(endpoint, moved) for endpoint in node.mptcp),
            "sysctl": {**node.sysctl, **_sysctl(ports)},
        }
    )


def _next_hop(interface: InterfacePlan, hops: set[IPv4Address]) -> InterfacePlan:
    """Derive a next hop's Ethernet address from its IP address, and turn off offload.

    Open vSwitch forwards frames as they are: with offload they would leave without a checksum.
    """
    found = next((each for each in interface.ipv4 if each in hops), None)
    if found is None:
        return interface
    return interface.model_copy(update={"mac": mac(found), "offload": False})


def _split(interface: InterfacePlan, ports: Mapping[str, int]) -> Iterator[InterfacePlan]:
    """Replace a WAN port by itself without addresses, a cable to the agent and an output cable.

    Open vSwitch discards the rest of a batch if a port's shaper drops one packet of it, whatever
    their classes. It therefore sends into the output cable, whose other end is redirected to the
    WAN port.
    """
    place = ports.get(interface.name)
    if place is None:
        yield interface
        return
    bare = interface.model_copy(update={"addresses": (), "offload": False})
    yield bare
    yield bare.model_copy(
        update={
            "name": agent_port(place),
            "addresses": interface.addresses,
            "mac": mac(interface.ipv4[0]),
        }
    )
    for name in (inner_port(place), output_port(place), behind_port(place)):
        yield bare.model_copy(update={"name": name})


def _moved(plan: _Named, moved: Mapping[str, str]) -> _Named:
    """Make a route or an endpoint use the port towards the agent instead of the WAN port."""
    name = plan.interface
    return plan if name is None else plan.model_copy(update={"interface": moved.get(name, name)})


def _sysctl(ports: Mapping[str, int]) -> dict[str, str]:
    deaf = {
        f"net.ipv4.conf.{name}.{key}": value
        for interface, place in ports.items()
        for name in (interface, inner_port(place), output_port(place), behind_port(place))
        for key, value in _DEAF.items()
    }
    filters = {f"net.ipv4.conf.{agent_port(place)}.rp_filter": "0" for place in ports.values()}
    return {**deaf, **filters}
