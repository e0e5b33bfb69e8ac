"""The overlay against the topology, and path groups against the branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hawser.spec.address import RESERVED
from hawser.spec.check.topology import near
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.overlay import Branch, Encryption, Overlay, PathGroup, Transport
from hawser.spec.topology import Topology
from hawser.spec.validate import Issue

MAX_GROUPS = 16
"""Path groups of one pair of branches: the label's field has 4 bits."""

MAX_SUBFLOWS = 9
"""Member paths of an `mptcp` group: the first, and the 8 that the kernel's path manager adds."""


def overlay(overlay: Overlay) -> Iterator[Issue]:
    """Check an overlay by itself."""
    yield from _unique(overlay)
    yield from _prefixes(overlay)
    for name in overlay.path_groups:
        yield from _group(overlay, name)
    yield from _group_count(overlay)
    if overlay.transport is Transport.MPTCP:
        yield from _subflows(overlay)
    if overlay.transport is Transport.QUIC and overlay.encryption is Encryption.NONE:
        message = "found none, expected tls13: the quic transport is always encrypted"
        yield Issue(("overlay", "encryption"), message)


def overlay_on(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check that an overlay fits its topology."""
    lan_ports = {end for link in topology.links.values() for end in link.ends}
    wan_ports = list(topology.internet.ports) if topology.internet else []
    for name, branch in overlay.branches.items():
        loc: Loc = ("overlay", "branches", name)
        if branch.gateway not in topology.nodes:
            yield Issue((*loc, "gateway"), near(topology.nodes, branch.gateway, "node"))
            continue
        yield from _wan(loc, branch, wan_ports)
        if f"{branch.gateway}.{branch.lan}" not in lan_ports:
            message = (
                f"found {found(branch.lan)}, expected a port of {branch.gateway} that a link joins"
            )
            yield Issue((*loc, "lan"), message)
    yield from _lans(topology, overlay)


def _wan(loc: Loc, branch: Branch, wan_ports: list[str]) -> Iterator[Issue]:
    known = [p.partition(".")[2] for p in wan_ports if p.partition(".")[0] == branch.gateway]
    for index, port in enumerate(branch.wan):
        if port not in known:
            what = f"internet port of {branch.gateway}"
            yield Issue((*loc, "wan", index), near(known, port, what))
        if port in branch.wan[:index]:
            yield Issue((*loc, "wan", index), f"found port {port} again")


def _unique(overlay: Overlay) -> Iterator[Issue]:
    ids: dict[int, str] = {}
    gateways: dict[str, str] = {}
    for name, branch in overlay.branches.items():
        loc: Loc = ("overlay", "branches", name)
        if branch.id in ids:
            yield Issue(
                (*loc, "id"), f"found {branch.id}, the number of branch {ids[branch.id]} too"
            )
        if branch.gateway in gateways:
            other = gateways[branch.gateway]
            yield Issue(
                (*loc, "gateway"), f"found {branch.gateway}, the gateway of branch {other} too"
            )
        ids.setdefault(branch.id, name)
        gateways.setdefault(branch.gateway, name)


def _prefixes(overlay: Overlay) -> Iterator[Issue]:
    taken = [(str(network), network) for network in RESERVED]
    for name, branch in overlay.branches.items():
        loc: Loc = ("overlay", "branches", name, "prefix")
        prefix = branch.prefix
        if prefix.prefixlen > 30 or prefix.prefixlen < 8:
            yield Issue(loc, f"found {prefix}, expected a prefix of 8 to 30 bits")
        for other, network in taken:
            if prefix.overlaps(network):
                yield Issue(loc, f"found {prefix}, which overlaps {_owner(other, network)}")
        taken.append((f"branch {name}", prefix))


def _lans(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """A LAN is a link from a gateway to a host; between two gateways' LANs it would be both."""
    lans = {f"{branch.gateway}.{branch.lan}" for branch in overlay.branches.values()}
    for name, link in topology.links.items():
        if lans.issuperset(link.ends):
            message = "found the LAN ports of two branches, expected a host at one end"
            yield Issue(("topology", "links", name, "ends"), message)


def _owner(name: str, network: object) -> str:
    return f"the prefix of {name}" if name.startswith("branch") else f"the reserved range {network}"


def _group(overlay: Overlay, name: str) -> Iterator[Issue]:
    group = overlay.path_groups[name]
    loc: Loc = ("overlay", "path_groups", name, "paths")
    issues = [
        i for index, route in enumerate(group.paths) for i in _route(overlay, route, (*loc, index))
    ]
    yield from issues
    if issues:
        return
    if len({frozenset(route_branches(route)) for route in group.paths}) > 1:
        yield Issue(loc, "found paths of several pairs of branches, expected all of one pair")
        return
    yield from _repeated(group, loc)
    if overlay.transport is Transport.MPTCP:
        yield from _full(overlay, group, loc)


def _repeated(group: PathGroup, loc: Loc) -> Iterator[Issue]:
    seen: set[frozenset[str]] = set()
    for index, route in enumerate(group.paths):
        if _ends(route) in seen:
            yield Issue((*loc, index), f"found the path {route} again")
        seen.add(_ends(route))


def _ends(route: str) -> frozenset[str]:
    """Give a path's ends without its direction: it goes both ways."""
    return frozenset(route.split(">"))


def _route(overlay: Overlay, route: str, loc: Loc) -> Iterator[Issue]:
    hops = [tuple(hop.split(".")) for hop in route.split(">")]
    for branch, port in hops:
        if branch not in overlay.branches:
            yield Issue(loc, near(overlay.branches, branch, "branch"))
        elif port not in overlay.branches[branch].wan:
            wan = overlay.branches[branch].wan
            yield Issue(loc, near(wan, port, f"WAN port of branch {branch}"))
    if len(hops) > 2:
        yield Issue(
            loc,
            f"found {len(hops) - 1} WAN hops, expected one: paths do not pass a third branch yet",
        )
    elif hops[0][0] == hops[-1][0]:
        yield Issue(loc, f"found a path within branch {hops[0][0]}, expected two branches")


def route_branches(route: str) -> tuple[str, str]:
    """Give the branches at the two ends of a path."""
    hops = route.split(">")
    return hops[0].partition(".")[0], hops[-1].partition(".")[0]


def _full(overlay: Overlay, group: PathGroup, loc: Loc) -> Iterator[Issue]:
    first, second = route_branches(group.paths[0])
    every = (
        f"{first}.{a}>{second}.{b}"
        for a in overlay.branches[first].wan
        for b in overlay.branches[second].wan
    )
    given = {_ends(route) for route in group.paths}
    missing = [route for route in every if _ends(route) not in given]
    if missing:
        message = "with the mptcp transport a group holds every pair of WAN ports, but lacks "
        yield Issue(loc, message + ", ".join(missing))


def _group_count(overlay: Overlay) -> Iterator[Issue]:
    count: Counter[frozenset[str]] = Counter()
    for name, group in overlay.path_groups.items():
        pair = frozenset(route_branches(group.paths[0]))
        count[pair] += 1
        if count[pair] == MAX_GROUPS + 1:
            pair_text = " and ".join(sorted(pair))
            message = f"found one group more than the {MAX_GROUPS} that {pair_text} may have"
            yield Issue(("overlay", "path_groups", name), message, key=True)


def _subflows(overlay: Overlay) -> Iterator[Issue]:
    names = list(overlay.branches)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            count = len(overlay.branches[first].wan) * len(overlay.branches[second].wan)
            if count > MAX_SUBFLOWS:
                message = (
                    f"found {count} paths to branch {first}, expected at most {MAX_SUBFLOWS}: "
                )
                message += "the kernel's path manager makes no more subflows"
                yield Issue(("overlay", "branches", second, "wan"), message)
