"""Adds chains to a plan: nodes for functions, and the configuration of each kind of steering."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from hawser.overlay.lab.chain import health, nsh, proxy, routes, sfc_unaware, srv6
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import (
    OWN_PORT,
    SIDES,
    Instance,
    Layout,
    SteeredChain,
    layout_of,
)
from hawser.overlay.lab.chain.segments import segments
from hawser.overlay.lab.plan import (
    ChainPlan,
    InterfacePlan,
    LinkPlan,
    NetworkPlan,
    NodePlan,
    RoutePlan,
    ServicePathPlan,
)
from hawser.overlay.lab.resolved import Resolved
from hawser.overlay.lab.sysctl import settings
from hawser.spec.chain import FunctionKind, Proxy, Steering
from hawser.spec.port import Port
from hawser.spec.service_path import ESP_OVERHEAD, NSH_OVERHEAD, ServicePath, overhead
from hawser.spec.topology import Link, Topology

_QUIET = {f"net.ipv4.conf.{name}.send_redirects": "0" for name in ("all", "default")}
"""Functions send packets back where they came from; nobody is to be redirected to a shorter path.
"""


def chained(lab: Resolved, plan: NetworkPlan) -> NetworkPlan:
    """Give a plan with the lab's chains added."""
    if not lab.chains:
        return plan
    layout = layout_of(lab, frozenset(_queued(lab.topology, plan)))
    added = Additions()
    for steer in (sfc_unaware.join, nsh.steer, srv6.steer, routes.steer):
        steer(layout, added)
    for source, route in _narrowed(layout):
        added.routes[source].append(route)
    every = list(layout.every())
    for node in {each.node for each in every}:
        added.sysctl[node]["net.ipv4.ip_forward"] = "1"
        added.sysctl[node] |= _QUIET
    joined = [_joined(layout, node, every) for node in plan.nodes]
    functions = [node for each in every for node in _nodes(layout, each)]
    nodes = tuple(added.node(node) for node in (*joined, *functions))
    added.daemons += health.classifiers(layout, nodes, added.steering_tables)
    named = plan.addresses | {each.name: each.ends[1].ip for each in every}
    return plan.model_copy(
        update={
            "nodes": nodes,
            "links": (*plan.links, *(cable for each in every for cable in _cables(each))),
            "daemons": (*plan.daemons, *added.daemons, *proxy.daemons(added)),
            "addresses": named,
            "programs": tuple(sfc_unaware.programs(layout, named)),
            "tunnels": (*plan.tunnels, *sfc_unaware.tunnels(layout)),
            "chains": tuple(_chain(layout, added, steered) for steered in layout.steered),
            "instances": {
                name: tuple(each.name for each in found) for name, found in layout.instances.items()
            },
        }
    )


def _queued(topology: Topology, plan: NetworkPlan) -> Iterator[Port]:
    """Give the ports of shaped links: XDP redirects would bypass their queues."""
    shaped = {Port(shaper.node, shaper.interface) for shaper in plan.shapers}
    for link in topology.links.values():
        if shaped & set(link.ends):
            yield from link.ends


def _joined(layout: Layout, node: NodePlan, every: list[Instance]) -> NodePlan:
    """Give a node with its ports to functions."""
    own = [each for each in every if each.node == node.name]
    ports = [
        _port(layout, each, each.port, 0).model_copy(update={"mac": each.macs[0]}) for each in own
    ]
    filters = {f"net.ipv4.conf.{each.port}.rp_filter": "0" for each in own}
    return node.model_copy(
        update={
            "interfaces": (*node.interfaces, *ports),
            "sysctl": {**node.sysctl, **filters},
        }
    )


def _nodes(layout: Layout, instance: Instance) -> Iterator[NodePlan]:
    """Give an instance's node, and that of its proxy."""
    port = _port(layout, instance, OWN_PORT, 1)
    yield NodePlan(
        name=instance.name,
        role="function",
        interfaces=(*_sides(instance, _behind(layout, instance, port.mtu), 1),)
        if instance.proxy
        else (port,),
        sysctl=settings([OWN_PORT], forwards=True, mptcp=False) | _QUIET,
        cpu=instance.function.cpu,
    )
    if instance.proxy:
        ports = (port, *_sides(instance, port.mtu, 0))
        sysctl = settings([OWN_PORT], forwards=False, mptcp=False)
        yield NodePlan(name=instance.proxy, role="function", interfaces=ports, sysctl=sysctl)


def _behind(layout: Layout, instance: Instance, mtu: int) -> int:
    """Give the MTU of a function behind a proxy, which adds headers to what the function sends."""
    function = instance.function
    if not function.kind.sfc_unaware or function.proxy is Proxy.MASQUERADING:
        return mtu
    return _inside(layout, _name(layout, instance))


def _inside(layout: Layout, function: str) -> int:
    """Give the largest packet that fits, with chain headers, into all chains of a function."""
    return min(steered.mtu for steered in layout.steered if function in steered.chain.functions)


def _sides(instance: Instance, mtu: int, end: int) -> Iterator[InterfacePlan]:
    """Give the ports between a proxy (0) and its function (1)."""
    for side, names in zip(instance.sides, SIDES, strict=True):
        yield InterfacePlan(
            name=names[1 - end],
            addresses=(side.ends[end],),
            mtu=mtu,
            offload=False,
            mac=side.macs[end],
        )


def _port(layout: Layout, instance: Instance, name: str, end: int) -> InterfacePlan:
    function = _name(layout, instance)
    steering = layout.steering_of(function)
    kind = instance.function.kind
    mtu = _cable_mtu(layout, steering)
    if kind is FunctionKind.IPSEC:
        mtu += ESP_OVERHEAD
    elif kind.sfc_unaware and name == OWN_PORT and not instance.proxy:
        mtu = _inside(layout, function)
    return InterfacePlan(
        name=name,
        addresses=() if instance.proxy else (instance.ends[end],),
        mtu=mtu,
        offload=steering is not Steering.NSH,
        mac=instance.macs[end],
        gro=kind.sfc_unaware and steering is Steering.NSH and name == OWN_PORT,
        queues=instance.function.queues,
    )


def _name(layout: Layout, instance: Instance) -> str:
    return next(name for name, found in layout.instances.items() if instance in found)


def _cable_mtu(layout: Layout, steering: Steering) -> int:
    """Give the MTU of a cable to a function: that of the widest link, plus chain headers."""
    widest = max(link.mtu for link in layout.topology.links.values())
    if steering is Steering.NSH:
        return widest + NSH_OVERHEAD
    chains = (steered.chain for steered in layout.steered if steered.chain.steering is steering)
    return widest + max(map(overhead, chains))


def _cables(instance: Instance) -> Iterator[LinkPlan]:
    here = instance.proxy or instance.name
    ends = ((instance.node, instance.port), (here, OWN_PORT))
    yield LinkPlan(name=here, ends=ends)
    if instance.proxy:
        for own, port in SIDES:
            ends = ((instance.proxy, port), (instance.name, own))
            yield LinkPlan(name=f"{instance.name}.{own}", ends=ends)


def _narrowed(layout: Layout) -> Iterator[tuple[str, RoutePlan]]:
    """Give routes with the MTU of chains, for ends of chains whose own link has a larger one."""
    found: dict[tuple[str, IPv4Network], tuple[ServicePath, int]] = {}
    for steered in layout.steered:
        for sfp in steered.service_paths.values():
            link = _link(layout, sfp.access.neighbour)
            if steered.mtu < link.mtu:
                for address in layout.of(sfp.target):
                    key = (sfp.source, address)
                    _, known = found.get(key, (sfp, steered.mtu))
                    found[key] = (sfp, min(known, steered.mtu))
    for (source, address), (sfp, mtu) in found.items():
        via = layout.address(sfp.access.neighbour)
        interface = sfp.access.interface
        yield source, RoutePlan(to=address, via=via, interface=interface, mtu=mtu)


def _link(layout: Layout, port: Port) -> Link:
    return next(link for link in layout.topology.links.values() if port in link.ends)


def _chain(layout: Layout, added: Additions, steered: SteeredChain) -> ChainPlan:
    return ChainPlan(
        name=steered.name,
        steering=steered.chain.steering,
        mode=steered.chain.encapsulation if steered.chain.steering is Steering.SRV6 else None,
        fail=steered.chain.fail,
        mtu=steered.mtu,
        service_paths=tuple(
            _service_path(layout, added, steered, number) for number in steered.service_paths
        ),
    )


def _service_path(
    layout: Layout, added: Additions, steered: SteeredChain, number: int
) -> ServicePathPlan:
    sfp = steered.service_paths[number]
    by_segments = steered.chain.steering is Steering.SRV6
    return ServicePathPlan(
        name=f"{steered.name}:{sfp.direction}",
        number=number,
        functions=sfp.functions,
        way=tuple(_way(sfp)),
        segments=segments(layout, steered, number) if by_segments else (),
        proxies=_proxies(layout, sfp),
    )


def _proxies(layout: Layout, sfp: ServicePath) -> dict[str, Proxy]:
    kinds = {name: layout.instances[name][0].function.proxy for name in sfp.functions}
    return {name: kind for name, kind in kinds.items() if kind}


def _way(sfp: ServicePath) -> Iterator[str]:
    yield from (sfp.source, sfp.classifier)
    for leg, name in zip(sfp.legs, sfp.functions, strict=False):
        yield from (hop.there for hop in leg)
        yield name
    yield from (hop.there for hop in sfp.legs[-1])
