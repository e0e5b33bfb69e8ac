"""Which elements the packets from one node to another pass: only they can limit a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from hawser.overlay.lab.resolved import Resolved, resolved
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.chain import instances, proxy_name
from hawser.spec.names import BACKBONE, EMULATOR, INTERNET
from hawser.spec.port import Port, node_of
from hawser.spec.route import Stop
from hawser.spec.service_path import ServicePath, service_paths
from hawser.spec.topology import Internet, Topology, wan_ports
from hawser.spec.way import Hop, first_hops, shortest, way
from hawser.spec.workflow import Scenario

_CROSS_TRAFFIC = ":cross_traffic"


@dataclass(frozen=True)
class Traversed:
    """Elements that packets pass in one direction."""

    nodes: frozenset[str] = frozenset()
    directions: frozenset[str] = frozenset()
    """Such as `link:x:forward`."""

    def __or__(self, other: Self) -> Traversed:
        return Traversed(self.nodes | other.nodes, self.directions | other.directions)

    def passes(self, name: str) -> bool:
        """Tell whether they pass a direction, or a class of one such as `port:gw1.a:forward:II`."""
        if name.endswith(_CROSS_TRAFFIC):
            return False
        return name in self.directions or name.rpartition(":")[0] in self.directions


def traversed(scenario: Scenario, source: str, target: str) -> Traversed | None:
    """Give what packets from one end of a measurement to the other may pass.

    All member paths of all path groups between two branches are included, and every instance of a
    function: which of them a flow uses is decided while it runs.

    Args:
        scenario: one that `spec.load` has checked.
        source: node or port that sends.
        target: node or port that receives.

    Returns:
        None if no links, internet or SD-WAN join them.
    """
    lab, ends = resolved(scenario), (node_of(source), node_of(target))
    found = _over_links(lab, *ends)
    if found is None:
        found = _over_wan(lab, source, target)
    if found is None:
        return None
    for service_path in _service_paths(lab):
        if (service_path.source, service_path.target) == ends:
            found |= _over_chain(lab, service_path)
    return found | Traversed(frozenset({*ends, EMULATOR}))


def _hops(topology: Topology, passed: Iterable[Hop]) -> Traversed:
    """Give the links and nodes of hops over links."""
    names = {}
    for name, link in topology.links.items():
        first, second = link.ends
        names[first], names[second] = f"link:{name}:forward", f"link:{name}:reverse"
    hops = tuple(passed)
    return Traversed(
        frozenset(node for hop in hops for node in (hop.node, hop.there)),
        frozenset(names[hop.port] for hop in hops),
    )


def _over_links(lab: Resolved, source: str, target: str) -> Traversed | None:
    if any(node.ecmp for node in lab.topology.nodes.values()):
        passed = shortest(lab.topology, source, target)
        return _hops(lab.topology, passed) if passed or source == target else None
    try:
        return _hops(lab.topology, way(lab.topology, source, target))
    except KeyError:
        return None


def _service_paths(lab: Resolved) -> Iterator[ServicePath]:
    for chain in lab.chains.values():
        yield from service_paths(lab.topology, lab.functions, chain)


def _over_chain(lab: Resolved, passed: ServicePath) -> Traversed:
    functions = {
        instance for name in passed.functions for instance in instances(name, lab.functions[name])
    }
    nodes = functions | {proxy_name(each) for each in functions}
    hops = (passed.access, *(hop for leg in passed.legs for hop in leg))
    return _hops(lab.topology, hops) | Traversed(frozenset(nodes))


def _over_wan(lab: Resolved, source: str, target: str) -> Traversed | None:
    """Give the way to a WAN port, over the WAN, and from another WAN port."""
    internet = lab.topology.internet
    if internet is None:
        return None
    exits, entries = _wan_ports(lab.topology, source), _wan_ports(lab.topology, target)
    if not exits or not entries:
        return None
    gateways = exits[0].node, entries[0].node
    first = _over_links(lab, node_of(source), gateways[0])
    last = _over_links(lab, gateways[1], node_of(target))
    if first is None or last is None:
        return None
    hops = set(_member_hops(lab.fabric, *gateways)) if lab.fabric else set()
    if not hops or {source, target} & set(internet.ports):
        hops |= {(exits[0], port) for port in entries}
    return first | last | _wan_hops(internet, hops) | _nats(lab, hops)


def _nats(lab: Resolved, hops: Iterable[tuple[Port, Port]]) -> Traversed:
    accesses = (lab.addresses.wan[port] for hop in hops for port in hop)
    return Traversed(frozenset(access.nat.node for access in accesses if access.nat))


def _wan_ports(topology: Topology, end: str) -> list[Port]:
    """Give the WAN port that an end is, else those of the nearest node that has any."""
    wan = wan_ports(topology)
    if any(end == port for ports in wan.values() for port in ports):
        return [Port.parse(end)]
    node = node_of(end)
    near = (node, *first_hops(topology, node))
    return next((wan[each] for each in near if each in wan), [])


def _member_hops(fabric: Fabric, source: str, target: str) -> Iterator[tuple[Port, Port]]:
    """Give the WAN hops of all member paths from one gateway to another."""
    by_gateway = {branch.gateway: name for name, branch in fabric.branches.items()}
    if source not in by_gateway or target not in by_gateway:
        return
    for group in fabric.between(by_gateway[source], by_gateway[target]):
        forward = group.branches[0] == by_gateway[source]
        for path in group.paths:
            for first, second in path.hops:
                hop = _port(fabric, first), _port(fabric, second)
                yield hop if forward else hop[::-1]


def _port(fabric: Fabric, stop: Stop) -> Port:
    return Port(fabric.branches[stop.branch].gateway, stop.port)


def _wan_hops(internet: Internet, hops: Iterable[tuple[Port, Port]]) -> Traversed:
    nodes, directions = {INTERNET, BACKBONE}, set()
    for first, second in hops:
        nodes |= {first.node, second.node}
        directions |= {f"port:{first}:forward", f"port:{second}:reverse"}
        directions.add(_path(internet, first, second))
        directions |= set(_bottlenecks(internet, first, second))
    return Traversed(frozenset(nodes), frozenset(directions))


def _path(internet: Internet, first: Port, second: Port) -> str:
    for name, path in internet.paths.items():
        if path.ends == (first, second):
            return f"path:{name}:forward"
        if path.ends == (second, first):
            return f"path:{name}:reverse"
    order = list(internet.ports)
    if order.index(first) < order.index(second):
        return f"path:{first}-{second}:forward"
    return f"path:{second}-{first}:reverse"


def _bottlenecks(internet: Internet, first: Port, second: Port) -> Iterator[str]:
    for name, bottleneck in internet.bottlenecks.items():
        if (first, second) in bottleneck.between:
            yield f"bottleneck:{name}:forward"
        if (second, first) in bottleneck.between:
            yield f"bottleneck:{name}:reverse"
