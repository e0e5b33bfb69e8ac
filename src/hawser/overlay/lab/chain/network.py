"""A plan with chains put in: nodes for functions, and what each kind of steering adds."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from hawser.overlay.lab.chain import bare, health, nsh, proxy, routes, srv6
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, SIDES, Instance, Layout, Led, layout_of
from hawser.overlay.lab.chain.segments import segments
from hawser.overlay.lab.plan import (
    ChainPlan,
    CoursePlan,
    InterfacePlan,
    LinkPlan,
    NetworkPlan,
    NodePlan,
    RoutePlan,
)
from hawser.overlay.lab.resolved import Resolved
from hawser.overlay.lab.sysctl import settings
from hawser.spec.chain import FunctionKind, Proxy, Steering
from hawser.spec.course import ESP_OVERHEAD, NSH_OVERHEAD, Course, overhead
from hawser.spec.port import Port
from hawser.spec.topology import Link, Topology

_QUIET = {f"net.ipv4.conf.{name}.send_redirects": "0" for name in ("all", "default")}
"""A function sends packets back to where they came from: nobody is to be told of a shorter way."""


def chained(lab: Resolved, plan: NetworkPlan) -> NetworkPlan:
    """Give a plan with the lab's chains; one without chains stays as it is."""
    if not lab.chains:
        return plan
    layout = layout_of(lab, frozenset(_queued(lab.topology, plan)))
    added = Additions()
    for steer in (bare.join, nsh.steer, srv6.steer, routes.steer):
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
    added.daemons += health.classifiers(layout, nodes, added.leading)
    named = plan.addresses | {each.name: each.ends[1].ip for each in every}
    return plan.model_copy(
        update={
            "nodes": nodes,
            "links": (*plan.links, *(cable for each in every for cable in _cables(each))),
            "daemons": (*plan.daemons, *added.daemons, *proxy.daemons(added)),
            "addresses": named,
            "programs": tuple(bare.programs(layout, named)),
            "tunnels": (*plan.tunnels, *bare.tunnels(layout)),
            "chains": tuple(_chain(layout, added, led) for led in layout.led),
            "instances": {
                name: tuple(each.name for each in found) for name, found in layout.instances.items()
            },
        }
    )


def _queued(topology: Topology, plan: NetworkPlan) -> Iterator[Port]:
    """Give the ports of links with a rate or more; what is redirected would pass it by."""
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


def _behind(layout: Layout, instance: Instance, room: int) -> int:
    """Give the MTU of a function behind a proxy: what it sends itself gets headers there."""
    function = instance.function
    if not function.kind.bare or function.proxy is Proxy.MASQUERADING:
        return room
    return _inside(layout, _name(layout, instance))


def _inside(layout: Layout, function: str) -> int:
    """Give the largest packet that fits, with what leads it, on the ways of a function's chains."""
    return min(led.mtu for led in layout.led if function in led.chain.functions)


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
    room = _room(layout, steering)
    if kind is FunctionKind.IPSEC:
        room += ESP_OVERHEAD
    elif kind.bare and name == OWN_PORT and not instance.proxy:
        room = _inside(layout, function)
    return InterfacePlan(
        name=name,
        addresses=() if instance.proxy else (instance.ends[end],),
        mtu=room,
        offload=steering is not Steering.NSH,
        mac=instance.macs[end],
        gro=kind.bare and steering is Steering.NSH and name == OWN_PORT,
        queues=instance.function.queues,
    )


def _name(layout: Layout, instance: Instance) -> str:
    return next(name for name, found in layout.instances.items() if instance in found)


def _room(layout: Layout, steering: Steering) -> int:
    """Give the MTU of a cable to a function: any packet of a link fits, with what is in front."""
    widest = max(link.mtu for link in layout.topology.links.values())
    if steering is Steering.NSH:
        return widest + NSH_OVERHEAD
    chains = (led.chain for led in layout.led if led.chain.steering is steering)
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
    """Tell the ends of chains of the room there is, where that is less than on their own link."""
    rooms: dict[tuple[str, IPv4Network], tuple[Course, int]] = {}
    for led in layout.led:
        for course in led.courses.values():
            link = _link(layout, course.access.neighbour)
            if led.mtu < link.mtu:
                for address in layout.of(course.target):
                    key = (course.source, address)
                    _, least = rooms.get(key, (course, led.mtu))
                    rooms[key] = (course, min(least, led.mtu))
    for (source, address), (course, mtu) in rooms.items():
        via = layout.address(course.access.neighbour)
        interface = course.access.interface
        yield source, RoutePlan(to=address, via=via, interface=interface, mtu=mtu)


def _link(layout: Layout, port: Port) -> Link:
    return next(link for link in layout.topology.links.values() if port in link.ends)


def _chain(layout: Layout, added: Additions, led: Led) -> ChainPlan:
    return ChainPlan(
        name=led.name,
        steering=led.chain.steering,
        mode=led.chain.encapsulation if led.chain.steering is Steering.SRV6 else None,
        fail=led.chain.fail,
        mtu=led.mtu,
        courses=tuple(_course(layout, added, led, number) for number in led.courses),
    )


def _course(layout: Layout, added: Additions, led: Led, number: int) -> CoursePlan:
    course = led.courses[number]
    led_by_segments = led.chain.steering is Steering.SRV6
    return CoursePlan(
        name=f"{led.name}:{course.direction}",
        number=number,
        functions=course.functions,
        way=tuple(_way(course)),
        segments=segments(layout, led, number) if led_by_segments else (),
        proxies=_proxies(layout, course),
    )


def _proxies(layout: Layout, course: Course) -> dict[str, Proxy]:
    kinds = {name: layout.instances[name][0].function.proxy for name in course.functions}
    return {name: kind for name, kind in kinds.items() if kind}


def _way(course: Course) -> Iterator[str]:
    yield from (course.source, course.classifier)
    for leg, name in zip(course.legs, course.functions, strict=False):
        yield from (hop.there for hop in leg)
        yield name
    yield from (hop.there for hop in course.legs[-1])
