"""Nodes, links and the internet: what they name must exist, and a port takes one cable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hawser.spec import region
from hawser.spec.check.channel import impairments
from hawser.spec.check.nat import leased_nats
from hawser.spec.check.prefix import link_prefixes
from hawser.spec.errors import choices, found
from hawser.spec.explain import Loc
from hawser.spec.names import RESERVED
from hawser.spec.port import Port
from hawser.spec.topology import Channel, Internet, Topology, backward
from hawser.spec.validate import Issue

MAX_NODES = 256
MAX_LINKS = 1024
MAX_WAN_PORTS = 128

_TAKEN = frozenset({"lo", "all", "default", "hawser0"})
"""Interface names that a namespace or `net.ipv4.conf` has already."""

_SYSCTL = re.compile(r"net(\.[A-Za-z0-9_-]+)+")


def topology(topology: Topology) -> Iterator[Issue]:
    """Check a topology."""
    yield from _limits(topology)
    yield from _nodes(topology)
    yield from _ends(topology)
    yield from link_prefixes(topology)
    if topology.internet is not None:
        yield from _paths(topology.internet)
        yield from leased_nats(topology)
    for loc, channel in channels(topology):
        yield from impairments(loc, channel)


def channels(topology: Topology) -> Iterator[tuple[Loc, Channel]]:
    """Every channel with its location, the forward and the backward direction apart."""
    internet = topology.internet
    parts: list[tuple[Loc, Iterable[tuple[str, Channel]]]] = [(("links",), topology.links.items())]
    if internet is not None:
        yield ("topology", "internet", "path"), internet.path
        parts.append((("internet", "ports"), internet.ports.items()))
        parts.append((("internet", "paths"), internet.paths.items()))
    for where, named in parts:
        for name, channel in named:
            loc = ("topology", *where, name)
            yield loc, channel
            if getattr(channel, "reverse", None) is not None:
                yield (*loc, "reverse"), backward(channel)


def near(known: Iterable[str], wrong: str, what: str) -> str:
    """Say that a name is unknown."""
    return f"found {found(wrong)}, which is no {what}; {choices(known, wrong)}"


def _limits(topology: Topology) -> Iterator[Issue]:
    wan = topology.internet.ports if topology.internet else {}
    for loc, named, limit in (
        (("nodes",), topology.nodes, MAX_NODES),
        (("links",), topology.links, MAX_LINKS),
        (("internet", "ports"), wan, MAX_WAN_PORTS),
    ):
        if len(named) > limit:
            yield Issue(
                ("topology", *loc), f"found {len(named)} {loc[-1]}, expected at most {limit}"
            )


def _nodes(topology: Topology) -> Iterator[Issue]:
    for name, node in topology.nodes.items():
        if name in RESERVED:
            message = (
                f"found the name {name!r}, which is reserved for {RESERVED[name]}; expected another"
            )
            yield Issue(("topology", "nodes", name), message, key=True)
        if node.region is not None and not region.known(node.region):
            yield Issue(
                ("topology", "nodes", name, "region"), near(region.names(), node.region, "region")
            )
        for key in node.sysctl:
            if not _SYSCTL.fullmatch(key):
                message = f"found {found(key)}, expected a setting of the network namespace, net.*"
                yield Issue(("topology", "nodes", name, "sysctl", key), message, key=True)


def _ends(topology: Topology) -> Iterator[Issue]:
    used: dict[str, str] = {}
    for loc, port, cable, key in _ports(topology):
        if port.node not in topology.nodes:
            yield Issue(loc, near(topology.nodes, port.node, "node"), key)
        if port.name in _TAKEN:
            yield Issue(
                loc, f"found the port name {port.name!r}, which is taken; expected another", key
            )
        if port in used:
            yield Issue(loc, f"found port {port} again, which {used[port]} uses", key)
        used.setdefault(port, cable)
    for name, link in topology.links.items():
        first, second = (end.node for end in link.ends)
        if first == second:
            message = f"found two ports of {first}, expected ports of two nodes"
            yield Issue(("topology", "links", name, "ends"), message)


def _ports(topology: Topology) -> Iterator[tuple[Loc, Port, str, bool]]:
    for name, link in topology.links.items():
        for index, port in enumerate(link.ends):
            yield ("topology", "links", name, "ends", index), port, f"link {name}", False
    for port in topology.internet.ports if topology.internet else ():
        yield ("topology", "internet", "ports", port), port, "the internet", True


def _paths(internet: Internet) -> Iterator[Issue]:
    described: dict[frozenset[Port], str] = {}
    for name, path in internet.paths.items():
        loc: Loc = ("topology", "internet", "paths", name, "ends")
        unknown = [index for index, end in enumerate(path.ends) if end not in internet.ports]
        for index in unknown:
            yield Issue((*loc, index), near(internet.ports, path.ends[index], "internet port"))
        pair = frozenset(path.ends)
        if not unknown and len({end.node for end in pair}) == 1:
            yield Issue(loc, "found two ports of one node, expected ports of two nodes")
        elif pair in described:
            yield Issue(loc, f"found the ports of path {described[pair]!r} again")
        described.setdefault(pair, name)
