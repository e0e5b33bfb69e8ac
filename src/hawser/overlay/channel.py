"""Channels in series, and the shapers that carry them out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from ipaddress import IPv4Network

from hawser.overlay.address import Addresses
from hawser.overlay.plan import ClassPlan, ShaperPlan
from hawser.spec.topology import Channel, Internet, Topology, backward
from hawser.spec.units import Duration, Ratio, Size

QUEUE = Size(50 * 1514)
"""Queue of a shaped direction that names none: 50 full Ethernet frames."""


def shapers(topology: Topology, addresses: Addresses) -> Iterator[ShaperPlan]:
    """Give the shapers of links, then of WAN ports: upload at the port, download at the internet."""
    yield from _links(topology)
    if topology.internet is not None:
        yield from _uploads(topology.internet)
        yield from _downloads(topology.internet, addresses)


def shaped(channel: Channel) -> bool:
    """Tell whether packets of this direction must be touched at all."""
    return any(
        value is not None for value in (channel.rate, channel.delay, channel.jitter, channel.loss)
    )


def both(channel: Channel) -> tuple[Channel, Channel]:
    """Give the two directions, forward first."""
    return channel, backward(channel)


def _links(topology: Topology) -> Iterator[ShaperPlan]:
    for name, link in topology.links.items():
        for end, direction, channel in zip(
            link.ends, ("forward", "reverse"), both(link), strict=True
        ):
            if shaped(channel):
                yield _whole(end, f"link:{name}:{direction}", channel)


def _uploads(internet: Internet) -> Iterator[ShaperPlan]:
    for port, channel in internet.ports.items():
        if shaped(channel):
            yield _whole(port, f"port:{port}:forward", channel)


def _whole(end: str, name: str, channel: Channel) -> ShaperPlan:
    """Shape all that leaves by a port."""
    node, _, interface = end.partition(".")
    classes = (_class(name, None, channel),)
    return ShaperPlan(node=node, interface=interface, name=name, rate=channel.rate, classes=classes)


def _downloads(internet: Internet, addresses: Addresses) -> Iterator[ShaperPlan]:
    paths = _Paths(internet)
    for port, access in internet.ports.items():
        down = backward(access)
        classes = tuple(
            _class(
                paths.name(source, port),
                _only(addresses, source),
                _series(paths.channel(source, port), down),
            )
            for source in internet.ports
            if source.partition(".")[0] != port.partition(".")[0]
        )
        if classes and (shaped(down) or paths.described(port)):
            interface = addresses.wan[port].interface
            name = f"port:{port}:reverse"
            yield ShaperPlan(
                node="internet", interface=interface, name=name, rate=down.rate, classes=classes
            )


class _Paths:
    """What the internet gives from one WAN port to another."""

    def __init__(self, internet: Internet) -> None:
        self._internet = internet
        self._order = {port: index for index, port in enumerate(internet.ports)}
        self._named = {}
        for name, path in internet.paths.items():
            first, second = path.ends
            self._named[first, second] = (f"path:{name}:forward", path.model_copy())
            self._named[second, first] = (f"path:{name}:reverse", backward(path))

    def described(self, target: str) -> bool:
        """Tell whether any path to this port has a name or values of its own."""
        return shaped(self._internet.path) or any(second == target for _, second in self._named)

    def name(self, source: str, target: str) -> str:
        """Give the name of a path's class; a path that has none is called after its ports."""
        if (source, target) in self._named:
            return self._named[source, target][0]
        if self._order[source] < self._order[target]:
            return f"path:{source}-{target}:forward"
        return f"path:{target}-{source}:reverse"

    def channel(self, source: str, target: str) -> Channel:
        """Give the values of a path in one direction."""
        if (source, target) in self._named:
            return self._named[source, target][1]
        return self._internet.path


def _only(addresses: Addresses, port: str) -> IPv4Network:
    return IPv4Network(addresses.wan[port].port.ip)


def _class(name: str, source: IPv4Network | None, channel: Channel) -> ClassPlan:
    return ClassPlan(
        name=name,
        source=source,
        rate=channel.rate,
        queue=channel.queue or QUEUE,
        delay=channel.delay,
        jitter=channel.jitter,
        loss=channel.loss,
    )


def _series(path: Channel, port: Channel) -> Channel:
    """Join a path and the port behind it: delays add up, losses are independent, the port's rate is kept apart."""
    return Channel(
        rate=path.rate,
        queue=path.queue or port.queue,
        delay=_added(path.delay, port.delay),
        jitter=_jitter(path.jitter, port.jitter),
        loss=_lost(path.loss, port.loss),
    )


def _added(first: Duration | None, second: Duration | None) -> Duration | None:
    return Duration((first or 0) + (second or 0)) if first or second else None


def _jitter(first: Duration | None, second: Duration | None) -> Duration | None:
    return Duration(math.hypot(first or 0, second or 0)) if first or second else None


def _lost(first: Ratio | None, second: Ratio | None) -> Ratio | None:
    return Ratio(1 - (1 - (first or 0)) * (1 - (second or 0))) if first or second else None
