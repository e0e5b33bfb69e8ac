"""Proxies for functions that know nothing of segment routing: `hawserd function srv6-proxy`.

See draft-ietf-spring-sr-service-programming, section 6. A proxy has a segment for each direction,
and the function a port for each side:

    node ---- f0 proxy p0 ---- f0 function      forward: in by f0, out by f1
                       p1 ---- f1               reverse: in by f1, out by f0
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network
from typing import Any

from hawser.overlay.chain.additions import Additions
from hawser.overlay.chain.layout import OWN_PORT, SIDES, Instance, Layout
from hawser.overlay.plan import DaemonPlan, RoutePlan, RulePlan
from hawser.overlay.route import EVERYTHING
from hawser.spec.chain import Proxy
from hawser.spec.course import Course

ROLE = "srv6-proxy"
_VERSION = 1
_NODE = "net"
"""The proxy's port to its node."""
_EVERYTHING6 = IPv6Network("::/0")

_IPV6 = {
    f"net.ipv6.conf.{name}.{key}": value
    for name in ("all", "default")
    for key, value in (
        ("disable_ipv6", "0"),
        ("forwarding", "1"),
        ("accept_ra", "0"),
        ("accept_dad", "0"),
    )
}
"""A function behind a proxy routes IPv6, but does not look at segments."""


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
    added.sysctl[instance.name] |= _IPV6
    for (incoming, _), (outgoing, _), side in zip(
        SIDES, reversed(SIDES), reversed(instance.sides), strict=True
    ):
        table = added.table()
        for to, via in ((EVERYTHING, side.ends[0].ip), (_EVERYTHING6, side.ends6[0].ip)):
            route = RoutePlan(to=to, via=via, interface=outgoing, table=table)
            added.routes[instance.name].append(route)
        rules = (RulePlan(incoming=incoming, family=f, table=table) for f in (4, 6))
        added.rules[instance.name] += rules


def _proxy(
    instance: Instance,
    segment: IPv6Address,
    course: Course,
    onward: list[list[str]],
    source: IPv6Address,
) -> dict[str, object]:
    kind = instance.function.proxy
    sides = list(zip(SIDES, instance.sides, strict=True))
    if course.direction == "reverse":
        sides.reverse()
    ((_, out), side), ((_, back), _) = sides
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
