"""Channels in series, and the shapers that implement them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from functools import partial

from hawser.overlay.lab.address import Addresses
from hawser.overlay.lab.distance import Distance, between, farther
from hawser.overlay.lab.plan import ClassPlan, ShaperPlan
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.priority import Levels
from hawser.spec.names import INTERNET
from hawser.spec.port import Port
from hawser.spec.prefixes import Network
from hawser.spec.topology import (
    Channel,
    GilbertElliott,
    Impairment,
    Internet,
    Topology,
    backward,
)
from hawser.spec.units import Duration, Ratio, Size

QUEUE = Size(50 * 1514)
"""Queue of a shaped direction that names none: 50 full Ethernet frames."""


def shapers(
    topology: Topology, addresses: Addresses, changed: Set[str], fabric: Fabric | None
) -> Iterator[ShaperPlan]:
    """Give the shapers of links, then of WAN ports: upload at the port, download at the internet.

    Args:
        topology: links and paths with all their delays (`distance.changeable`).
        addresses: address plan of the lab.
        changed: elements that events change: they get shapers even if nothing else needs one.
        fabric: the SD-WAN, whose priorities apply at limited WAN ports.
    """
    yield from _links(topology)
    if topology.internet is not None:
        yield from _uploads(topology.internet, changed, _prioritised(fabric))
        yield from _downloads(topology, topology.internet, addresses, changed)


def shaped(channel: Channel) -> bool:
    """Tell whether this direction needs a shaper."""
    return channel.rate is not None or channel.impaired


def both(channel: Channel) -> tuple[Channel, Channel]:
    """Give the two directions, forward first."""
    return channel, backward(channel)


def _links(topology: Topology) -> Iterator[ShaperPlan]:
    for name, link in topology.links.items():
        for end, way, channel in zip(link.ends, ("forward", "reverse"), both(link), strict=True):
            if shaped(channel):
                yield _whole(end, f"link:{name}:{way}", channel)


def _prioritised(fabric: Fabric | None) -> dict[Port, Levels]:
    """Give the priority levels of WAN ports that a switch sends to and whose rate is limited."""
    if fabric is None or not fabric.switched:
        return {}
    return {
        Port(branch.gateway, name): fabric.levels
        for branch in fabric.branches.values()
        for name, port in branch.ports.items()
        if port.limited
    }


def _uploads(
    internet: Internet, changed: Set[str], prioritised: Mapping[Port, Levels]
) -> Iterator[ShaperPlan]:
    for port, channel in internet.ports.items():
        if port in prioritised:
            yield _by_level(port, channel, prioritised[port])
        elif shaped(channel) or f"port:{port}" in changed:
            yield _whole(port, f"port:{port}:forward", channel)


def _by_level(port: Port, channel: Channel, found: Levels) -> ShaperPlan:
    """Give an upload with one class per level; the last class takes unmarked packets."""
    name = f"port:{port}:forward"
    one = _class(name, None, channel.model_copy(update={"rate": None}), limited=True)
    last = len(found.names) - 1
    classes = tuple(
        one.model_copy(
            update={"name": f"{name}:{level}", "priority": place, "marked": place < last}
        )
        for place, level in enumerate(found.names)
    )
    return ShaperPlan(
        node=port.node, interface=port.name, name=name, rate=channel.rate, classes=classes
    )


def _whole(port: Port, name: str, channel: Channel) -> ShaperPlan:
    """Shape all packets that leave by a port, in one class."""
    classes = (_class(name, None, channel, limited=channel.rate is not None),)
    return ShaperPlan(
        node=port.node, interface=port.name, name=name, rate=channel.rate, classes=classes
    )


def _downloads(
    topology: Topology, internet: Internet, addresses: Addresses, changed: Set[str]
) -> Iterator[ShaperPlan]:
    paths = _Paths(internet, partial(between, topology))
    for port, access in internet.ports.items():
        down = backward(access)
        if not (shaped(down) or paths.described(port) or f"port:{port}" in changed):
            continue
        sources = [s for s in internet.ports if s.node != port.node]
        yield ShaperPlan(
            node=INTERNET,
            interface=addresses.wan[port].interface,
            name=f"port:{port}:reverse",
            rate=down.rate,
            classes=tuple(paths.arriving(source, port, addresses, down) for source in sources),
        )


class _Paths:
    """The internet's paths between WAN ports."""

    def __init__(self, internet: Internet, distance: Distance) -> None:
        self._default = internet.path
        self._distance = distance
        self._order = {port: index for index, port in enumerate(internet.ports)}
        self._named: dict[tuple[Port, Port], tuple[str, Channel]] = {}
        for name, path in internet.paths.items():
            first, second = path.ends
            self._named[first, second] = (f"path:{name}:forward", path)
            self._named[second, first] = (f"path:{name}:reverse", backward(path))

    def described(self, target: Port) -> bool:
        """Tell whether any path to this port has a name or values of its own."""
        named = any(second == target for _, second in self._named)
        far = any(self._distance(source, target) is not None for source in self._order)
        return shaped(self._default) or named or far

    def arriving(
        self, source: Port, target: Port, addresses: Addresses, down: Channel
    ) -> ClassPlan:
        """Give the class of a path at its destination port, in series with the port's download."""
        name, channel = self._named.get((source, target)) or self._unnamed(source, target)
        limited = channel.rate is not None or down.rate is not None
        return _class(
            name, addresses.wan[source].tunnelled, _series(channel, down), limited=limited
        )

    def _unnamed(self, source: Port, target: Port) -> tuple[str, Channel]:
        """Name an unnamed path after its ports."""
        channel = farther(self._default, self._distance(source, target))
        if self._order[source] < self._order[target]:
            return f"path:{source}-{target}:forward", channel
        return f"path:{target}-{source}:reverse", channel


def _class(name: str, source: Network | None, channel: Channel, *, limited: bool) -> ClassPlan:
    """Give a class. Without a rate limit, no packet waits and it needs no queue."""
    values = channel.model_dump(include=set(Impairment.model_fields) | {"rate"})
    queue = (channel.queue or QUEUE) if limited or channel.trace is not None else None
    return ClassPlan.model_validate(values | {"name": name, "source": source, "queue": queue})


def _series(path: Channel, port: Channel) -> Channel:
    """Combine a path and the port behind it. The port's rate is not included.

    Delays add up; jitter, loss and duplication are independent. For all else the path's value wins
    if both have one.
    """
    own, other = (
        channel.model_dump(include=set(Impairment.model_fields), exclude_none=True)
        for channel in (path, port)
    )
    chain, loss = path.gilbert_elliott or port.gilbert_elliott, _either(path.loss, port.loss)
    joined = {
        "rate": path.rate,
        "queue": path.queue or port.queue,
        "delay": _added(path.delay, port.delay),
        "jitter": _jitter(path.jitter, port.jitter),
        "duplication": _either(path.duplication, port.duplication),
        "gilbert_elliott": None if chain is None else _burst(chain, loss),
        "loss": loss if chain is None else None,
    }
    return Channel.model_validate(other | own | joined)


def _added(first: Duration | None, second: Duration | None) -> Duration | None:
    if first is None and second is None:
        return None
    return Duration((first or 0) + (second or 0))


def _jitter(first: Duration | None, second: Duration | None) -> Duration | None:
    return Duration(math.hypot(first or 0, second or 0)) if first or second else None


def _either(first: Ratio | None, second: Ratio | None) -> Ratio | None:
    """Give the probability that at least one of two independent events happens."""
    one, other = first or 0, second or 0
    return Ratio(one + other - one * other) if one or other else None


def _burst(chain: GilbertElliott, loss: Ratio | None) -> GilbertElliott:
    """Add independent loss to both states of a chain."""
    good, bad = (_either(share, loss) or Ratio(0) for share in (chain.good, chain.bad))
    return GilbertElliott(to_bad=chain.to_bad, to_good=chain.to_good, good=good, bad=bad)
