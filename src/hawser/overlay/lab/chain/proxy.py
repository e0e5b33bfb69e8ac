"""SRv6 proxies of SFC-unaware functions: `hawserd function srv6-proxy`.

See draft-ietf-spring-sr-service-programming, section 6. A proxy has a segment for each direction,
and the function a port for each side:

    node ---- f0 proxy p0 ---- f0 function      forward: in by f0, out by f1
                       p1 ---- f1               reverse: in by f1, out by f0

The function's own connections and replies leave by the port on the side of their destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address, IPv6Network
from pathlib import PurePosixPath
from typing import TypeVar

from hawser.overlay.config.srv6_proxy import Encapsulation, Port, Proxy, Srv6ProxyConfig, Way
from hawser.overlay.lab.chain import sfc_unaware
from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import OWN_PORT, SIDES, Instance, Layout
from hawser.overlay.lab.plan import RoutePlan, RulePlan, Srv6ProxyDaemon
from hawser.overlay.lab.sysctl import IPV6
from hawser.spec.chain import Proxy as Behaviour
from hawser.spec.port import Port as NodePort
from hawser.spec.service_path import ServicePath

T = TypeVar("T")

_NODE = "net"
"""The proxy's port to its node."""
_EVERYTHING6 = IPv6Network("::/0")


def stand_in(
    layout: Layout,
    added: Additions,
    instance: Instance,
    sfp: ServicePath,
    lists: Sequence[tuple[IPv6Address, ...]],
) -> None:
    """Steer a service path through the proxy of a function and through the function.

    Args:
        layout: of all chains.
        added: what there is so far.
        instance: the function's, which has a proxy.
        sfp: the sfp.
        lists: its segment list, and the one for IPv6 packets if it steers them.
    """
    assert instance.proxy  # noqa: S101 (the caller's choice)
    there = instance.ends6[1]
    place = sfp.functions.index(_name(layout, instance))
    segment = lists[0][place]
    to = RoutePlan(to=IPv6Network(segment), via=there.ip, interface=instance.port)
    added.routes[instance.node].append(to)
    if instance.proxy not in added.proxies:
        _begin(added, instance)
        _function(added, instance)
    added.routes[instance.name] += _own(layout, instance, sfp, len(lists) > 1)
    onward = [segments[place + 1 :] for segments in lists]
    proxy = _proxy(instance, segment, sfp, onward, there.ip)
    added.proxies[instance.proxy].setdefault(segment, proxy)


def daemons(added: Additions) -> Iterator[Srv6ProxyDaemon]:
    """Give the daemons of all proxies."""
    node = Port(name=_NODE, interface=OWN_PORT, trusted=True)
    ports = (node, *(Port(name=port, interface=port) for _, port in SIDES))
    for name, proxies in added.proxies.items():
        control = PurePosixPath(f"{name}.sock")
        config = Srv6ProxyConfig(control=control, ports=ports, proxies=tuple(proxies.values()))
        yield Srv6ProxyDaemon(node=name, name=name, config=config)


def _name(layout: Layout, instance: Instance) -> str:
    return next(name for name, found in layout.instances.items() if instance in found)


def _begin(added: Additions, instance: Instance) -> None:
    """Join a proxy to its node and to its function."""
    name = str(instance.proxy)
    here, there = instance.ends6
    ends = {instance.node_end: here, NodePort(name, OWN_PORT): there}
    for (own, port), side in zip(SIDES, instance.sides, strict=True):
        ends[NodePort(name, port)], ends[NodePort(instance.name, own)] = side.ends6
    for end, address in ends.items():
        added.addresses[end].append(address)
        added.xdp.add(end)


def _function(added: Additions, instance: Instance) -> None:
    """Let the function forward packets of both families from one port to the other."""
    added.sysctl[instance.name] |= IPV6
    for (incoming, _), (outgoing, _), side in zip(
        SIDES, reversed(SIDES), reversed(instance.sides), strict=True
    ):
        table = added.table()
        own = sfc_unaware.routes(instance.function, side.ends[0].ip, outgoing, table)
        via = side.ends6[0].ip
        six = RoutePlan(to=_EVERYTHING6, via=via, interface=outgoing, table=table)
        added.routes[instance.name] += (*own, six)
        rules = (RulePlan(incoming=incoming, family=f, table=table) for f in (4, 6))
        added.rules[instance.name] += rules


def _own(
    layout: Layout, instance: Instance, sfp: ServicePath, carries_ipv6: bool
) -> Iterator[RoutePlan]:
    """Route what a program itself sends to the end of a service path."""
    if not instance.function.kind.sfc_unaware:
        return
    (_, (interface, _)), (_, side) = _along(sfp, SIDES), _along(sfp, instance.sides)
    for address in layout.of(sfp.target):
        yield RoutePlan(to=address, via=side.ends[0].ip, interface=interface)
    if carries_ipv6:
        end = IPv6Network(layout.address6(sfp.legs[-1][-1].neighbour).ip)
        yield RoutePlan(to=end, via=side.ends6[0].ip, interface=interface)


def _along(sfp: ServicePath, sides: tuple[T, T]) -> tuple[T, T]:
    """Give the port at which packets of a service path enter a function, and the other port."""
    return sides if sfp.direction == "forward" else (sides[1], sides[0])


def _proxy(
    instance: Instance,
    segment: IPv6Address,
    sfp: ServicePath,
    onward: Sequence[tuple[IPv6Address, ...]],
    source: IPv6Address,
) -> Proxy:
    assert instance.function.proxy  # noqa: S101 (the caller's choice)
    ((_, out), (_, back)), (side, _) = _along(sfp, SIDES), _along(sfp, instance.sides)
    return Proxy(
        segment=segment,
        behaviour=instance.function.proxy,
        function=Way(port=out, mac=side.macs[1]),
        returns=back,
        onward=Way(port=_NODE, mac=instance.macs[0]),
        encapsulation=_encapsulation(instance, onward, source),
    )


def _encapsulation(
    instance: Instance, onward: Sequence[tuple[IPv6Address, ...]], source: IPv6Address
) -> Encapsulation | None:
    """Give the segments that a static proxy adds to packets: the rest of each segment list."""
    if instance.function.proxy is not Behaviour.STATIC:
        return None
    segments, *ipv6_segments = onward
    return Encapsulation(
        source=source, segments=segments, segments_ipv6=ipv6_segments[0] if ipv6_segments else ()
    )
