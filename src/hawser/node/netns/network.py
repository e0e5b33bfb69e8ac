"""Addresses, routes, rules and offloads of one namespace, through netlink.

All functions act in the namespace of their `IPRoute` and of the calling thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from socket import AF_INET, AF_INET6

from pyroute2 import IPRoute, NetlinkError

from hawser.node.base import NodeError
from hawser.node.change import Device, ShaperChange
from hawser.node.netns import ethtool, mptcp, napi, nft, rtnetlink, seg6, sysctl, tc
from hawser.node.netns.htb import needs_tree
from hawser.overlay.lab.plan import (
    FIRST_RULE,
    InterfacePlan,
    NodePlan,
    RoutePlan,
    RulePlan,
    ShaperPlan,
)

_LAST = 4096
"""Metric of unreachable routes: any other route to the same destination takes precedence."""

_LOOPBACK = 1


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say in the error what was being done.

    Raises:
        NodeError: instead of NetlinkError and OSError.
    """
    try:
        yield
    except NetlinkError as error:
        raise NodeError(f"{what}: {error.args[1]}") from error
    except OSError as error:
        raise NodeError(f"{what}: {error.strerror or error}") from error


def prepare(route: IPRoute, plan: NodePlan) -> None:
    """Prepare for the first interface: bring the loopback up, apply general kernel settings."""
    with step("loopback"):
        route.link("set", index=_LOOPBACK, state="up")
    sysctl.write({k: v for k, v in plan.sysctl.items() if not sysctl.of_interface(k)})


def veth(route: IPRoute, mine: InterfacePlan, peer: InterfacePlan, peer_namespace: Path) -> None:
    """Make a pair of virtual Ethernet ports, each in its own namespace from its first moment."""
    with step(f"interface {mine.name}"):
        route.link(
            "add",
            ifname=mine.name,
            kind="veth",
            mtu=mine.mtu,
            **_made(mine),
            peer={
                "ifname": peer.name,
                "net_ns_fd": str(peer_namespace),
                "mtu": peer.mtu,
                **_made(peer),
            },
        )


def _made(plan: InterfacePlan) -> dict[str, str | int]:
    """Give the settings that must or should be made when an interface is created."""
    queues = {"num_tx_queues": plan.queues, "num_rx_queues": plan.queues}
    return {**queues, **({} if plan.mac is None else {"address": plan.mac})}


def configure(route: IPRoute, plan: NodePlan, shapers: tuple[ShaperPlan, ...]) -> None:
    """Configure a node whose interfaces exist."""
    index = indices(route)
    for interface in plan.interfaces:
        _interface(route, interface, index)
    for shaper in shapers:
        with step(f"shaper {shaper.name}"):
            mtu = next(i.mtu for i in plan.interfaces if i.name == shaper.interface)
            if needs_tree(shaper):
                tc.build(route, index[shaper.interface], mtu, shaper)
    for interface in plan.interfaces:
        with step(f"interface {interface.name}: up"):
            route.link("set", index=index[interface.name], state="up")
            if interface.gro:  # not before: a veth that is down does not tell its peer (Linux 6.18)
                ethtool.enable_gro(interface.name)
            if interface.threaded:
                napi.thread(route, interface.name, index[interface.name])
    for source, target in plan.redirects:
        with step(f"redirect from {source} to {target}"):
            tc.redirect(route, index[source], index[target])
    for vrf in plan.vrfs:
        with step(f"VRF {vrf.name}"):
            seg6.vrf(route, vrf)
    _layer3(route, plan, indices(route))
    sysctl.write({k: v for k, v in plan.sysctl.items() if sysctl.of_interface(k)})


def reshape(route: IPRoute, mtu: int, change: ShaperChange) -> float:
    """Change the shaper of an interface; when classes were taken down or brought back."""
    before, after = change.before, change.after
    index = indices(route)[after.interface]
    with step(f"shaper {after.name}"):
        if before is None or not tc.exists(route, index):
            ethtool.disable_offload(after.interface)
            tc.build(route, index, mtu, after)
        else:
            tc.change(route, index, mtu, before, after)
        moment = time.monotonic()
        for name, state in change.up.items():
            tc.set_up(route, index, after, name, up=state)
    return moment


def attach(route: IPRoute, device: Device) -> None:
    """Bring up an interface created by a program, and route networks to it."""
    with step(f"interface {device.name}"):
        index = next(iter(route.link_lookup(ifname=device.name)), None)
        if index is None:
            raise NodeError(f"interface {device.name}: there is none of that name")
        mtu = {} if device.mtu is None else {"mtu": device.mtu}
        route.link("set", index=index, state="up", **mtu)
        table = {} if device.table is None else {"table": device.table}
        for each in device.networks:
            route.route("replace", dst=str(each), oif=index, scope="link", **table)


def indices(route: IPRoute) -> dict[str, int]:
    """Interface index by name."""
    return {link.get_attr("IFLA_IFNAME"): link["index"] for link in route.get_links()}


def counters(shapers: tuple[ShaperPlan, ...]) -> dict[str, dict[str, int]]:
    """Counters of interfaces and classes of this thread's namespace; see `Node.counters`."""
    with step("counters"):
        links, qdiscs = rtnetlink.links(), rtnetlink.qdiscs()
    found = {name: dict(link.counters) for name, link in links.items()}
    for shaper in shapers:
        classes = tc.counters(qdiscs, links[shaper.interface].index, shaper)
        found |= classes or {shaper.classes[0].name: _unshaped(found[shaper.interface])}
    return found


def _interface(route: IPRoute, plan: InterfacePlan, index: Mapping[str, int]) -> None:
    with step(f"interface {plan.name}"):
        for address in plan.addresses:
            route.addr(
                "add",
                index=index[plan.name],
                address=str(address.ip),
                prefixlen=address.network.prefixlen,
            )
        if not plan.offload:
            ethtool.disable_offload(plan.name)


def _layer3(route: IPRoute, plan: NodePlan, index: Mapping[str, int]) -> None:
    for each in plan.routes:
        with step(f"route to {each.to}"):
            _route(route, each, index)
    for priority, rule in enumerate(plan.rules, FIRST_RULE):
        with step(f"rule for table {rule.table}"):
            _rule(route, rule, priority)
    for segment in plan.segments:
        with step(f"segment {segment.segment}"):
            seg6.local(route, segment, index[segment.interface])
    if plan.untrusted:
        with step("ports that refuse segments"):
            nft.refuse_segments(plan.untrusted)
    if plan.nat:
        with step("NAT"):
            nft.translate(plan.nat)
    if plan.mptcp:
        with step("MPTCP endpoints"):
            mptcp.configure(plan.mptcp, index)


def _route(route: IPRoute, plan: RoutePlan, index: Mapping[str, int]) -> None:
    options: dict[str, object] = {"dst": str(plan.to), "family": _family(plan.to)}
    if plan.others:
        hops = ((plan.via, plan.interface), *plan.others)
        options["multipath"] = [{"gateway": str(via), "oif": index[name]} for via, name in hops]
    elif plan.kind == "unicast":
        options["oif"] = index[plan.interface]
    else:
        options["type"] = plan.kind
    if plan.kind != "unicast":
        options["priority"] = _LAST
    elif plan.others:
        pass
    elif plan.via is None:
        options["scope"] = "link"
    else:
        options["gateway"] = str(plan.via)
    if plan.source is not None:
        options["prefsrc"] = str(plan.source)
    if plan.table is not None:
        options["table"] = plan.table
    if plan.mtu is not None:
        options["metrics"] = {"mtu": plan.mtu}
    if plan.segments:
        options |= {
            "encap": seg6.encapsulation(plan.segments, plan.mode),
            "scope": "universe",
        }
    route.route("add", **options)


def _family(network: IPv4Network | IPv6Network) -> int:
    return AF_INET if isinstance(network, IPv4Network) else AF_INET6


def _rule(route: IPRoute, plan: RulePlan, priority: int) -> None:
    values: dict[str, object] = {
        "src": plan.source and str(plan.source),
        "dst": plan.to and str(plan.to),
        "iifname": plan.incoming,
        "ip_proto": plan.protocol,
        "sport_range": plan.source_ports and "{}:{}".format(*plan.source_ports),
        "dport_range": plan.destination_ports and "{}:{}".format(*plan.destination_ports),
    }
    options = {name: value for name, value in values.items() if value is not None}
    family = AF_INET6 if plan.family == 6 else AF_INET
    route.rule("add", family=family, priority=priority, table=plan.table, **options)


def _unshaped(interface: Mapping[str, int]) -> dict[str, int]:
    """Counters of a class without a rate: those of the interface, without queue and drops."""
    return {
        "packets": interface["tx_packets"],
        "bytes": interface["tx_bytes"],
        "drop_queue": 0,
        "drop_down": 0,
        "backlog": 0,
    }
