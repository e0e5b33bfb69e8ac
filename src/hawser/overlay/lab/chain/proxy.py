"""Proxies for functions that know nothing of segment routing: `hawserd function srv6-proxy`.

See draft-ietf-spring-sr-service-programming, section 6. A proxy has a segment for each direction,
and the function a port for each side:

    node ---- f0 proxy p0 ---- f0 function      forward: in by f0, out by f1
                       p1 ---- f1               reverse: in by f1, out by f0

Connections of a function's own, and what it answers itself, leave by the side that leads there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address, IPv6Network
from typing import Any, TypeVar

from hawser.overlay.lab.chain import bare, ipv6
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, SIDES, Instance, Layout
from hawser.overlay.lab.plan import DaemonPlan, RoutePlan, RulePlan
from hawser.spec.chain import Proxy
from hawser.spec.course import Course

T = TypeVar("T")

ROLE = "srv6-proxy"
_VERSION = 1
_NODE = "net"
"""The proxy's port to its node."""
_EVERYTHING6 = IPv6Network("::/0")


def stand_in(
    layout: Layout,
    added: Additions,
    instance: Instance,
    course: Course,
    lists: Sequence[tuple[IPv6Address, ...]],
) -> None:
    """Add what leads a course through the proxy of a function, and through that.

    Args:
        layout: of all chains.
        added: what there is so far.
        instance: the function's, which has a proxy.
        course: the course.
        lists: its segment list, and the one for IPv6 packets where it leads these.
    """
    assert instance.proxy  # noqa: S101 (the caller's choice)
    there = instance.ends6[1]
    place = course.functions.index(_name(layout, instance))
    segment = lists[0][place]
    to = RoutePlan(to=IPv6Network(segment), via=there.ip, interface=instance.port)
    added.routes[instance.node].append(to)
    daemon = next((each for each in added.daemons if each.name == instance.proxy), None)
    if daemon is None:
        daemon = _begin(added, instance)
        _function(added, instance)
    added.routes[instance.name] += _own(layout, instance, course, len(lists) > 1)
    proxies: Any = daemon.config["proxies"]
    if all(each["segment"] != str(segment) for each in proxies):
        onward = [[str(each) for each in segments[place + 1 :]] for segments in lists]
        proxies.append(_proxy(instance, segment, course, onward, there.ip))


def _name(layout: Layout, instance: Instance) -> str:
    return next(name for name, found in layout.instances.items() if instance in found)


def _begin(added: Additions, instance: Instance) -> DaemonPlan:
    """Make the proxy's node, and its daemon without any proxies."""
    name = str(instance.proxy)
    here, there = instance.ends6
    ends = {f"{instance.node}.{instance.port}": here, f"{name}.{OWN_PORT}": there}
    for (own, port), side in zip(SIDES, instance.sides, strict=True):
        ends |= {f"{name}.{port}": side.ends6[0], f"{instance.name}.{own}": side.ends6[1]}
    for port, address in ends.items():
        added.addresses[port].append(address)
        added.xdp.add(port)
    names = [(_NODE, OWN_PORT), *((port, port) for _, port in SIDES)]
    config = {
        "version": _VERSION,
        "control": f"{name}.sock",
        "ports": [{"name": port, "interface": interface} for port, interface in names],
        "proxies": [],
    }
    daemon = DaemonPlan(node=name, role=ROLE, name=name, config=config)
    added.daemons.append(daemon)
    return daemon


def _function(added: Additions, instance: Instance) -> None:
    """Let the function pass what comes by one side on by the other, of either family."""
    added.sysctl[instance.name] |= ipv6.PLAIN_ROUTER
    for (incoming, _), (outgoing, _), side in zip(
        SIDES, reversed(SIDES), reversed(instance.sides), strict=True
    ):
        table = added.table()
        own = bare.routes(instance.function, side.ends[0].ip, outgoing, table)
        via = side.ends6[0].ip
        six = RoutePlan(to=_EVERYTHING6, via=via, interface=outgoing, table=table)
        added.routes[instance.name] += (*own, six)
        rules = (RulePlan(incoming=incoming, family=f, table=table) for f in (4, 6))
        added.rules[instance.name] += rules


def _own(
    layout: Layout, instance: Instance, course: Course, carries_ipv6: bool
) -> Iterator[RoutePlan]:
    """Lead what a program sends itself to the end of a course."""
    if not instance.function.kind.bare:
        return
    (_, (interface, _)), (_, side) = _along(course, SIDES), _along(course, instance.sides)
    for address in layout.of(course.target):
        yield RoutePlan(to=address, via=side.ends[0].ip, interface=interface)
    if carries_ipv6:
        end = IPv6Network(layout.address6(course.legs[-1][-1].neighbour).ip)
        yield RoutePlan(to=end, via=side.ends6[0].ip, interface=interface)


def _along(course: Course, sides: tuple[T, T]) -> tuple[T, T]:
    """Give the side by which packets of a course come to a function, and the other."""
    return sides if course.direction == "forward" else (sides[1], sides[0])


def _proxy(
    instance: Instance,
    segment: IPv6Address,
    course: Course,
    onward: list[list[str]],
    source: IPv6Address,
) -> dict[str, object]:
    kind = instance.function.proxy
    ((_, out), (_, back)), (side, _) = _along(course, SIDES), _along(course, instance.sides)
    proxy: dict[str, object] = {
        "segment": str(segment),
        "behaviour": str(kind),
        "function": {"port": out, "mac": side.macs[1]},
        "returns": back,
        "onward": {"port": _NODE, "mac": instance.macs[0]},
    }
    if kind is Proxy.STATIC:
        fields = zip(("segments", "segments_ipv6"), onward, strict=False)
        proxy["encapsulation"] = {"source": str(source), **dict(fields)}
    return proxy
