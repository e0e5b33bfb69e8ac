"""Prefixes of branches and links: none overlaps another, or a range that the lab reserves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from hawser.spec.address import RESERVED
from hawser.spec.explain import Loc
from hawser.spec.overlay import Overlay
from hawser.spec.prefixes import Prefixes
from hawser.spec.topology import Topology
from hawser.spec.validate import Issue

_Owned = tuple[str, Loc, IPv4Network]
"""Who has a prefix, where it is written, and the prefix."""


def link_prefixes(topology: Topology) -> Iterator[Issue]:
    """Check the prefixes of links."""
    yield from _apart(_links(topology))


def branch_prefixes(overlay: Overlay) -> Iterator[Issue]:
    """Check the prefixes of branches."""
    yield from _apart(_branches(overlay))


def lan_prefixes(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check the prefixes of links against those of branches."""
    lans = {branch.lan_port for branch in overlay.branches.values()}
    taken = Prefixes()
    for owner, _, prefix in _branches(overlay):
        taken.add(owner, prefix)
    for _, loc, prefix in _links(topology):
        if lans.intersection(topology.links[str(loc[2])].ends):
            message = f"found {prefix} at the LAN of a branch, whose own prefix applies"
            yield Issue(loc, message)
            continue
        for other, _ in taken.overlapping(prefix):
            yield Issue(loc, f"found {prefix}, which overlaps the prefix of {other}")


def _links(topology: Topology) -> Iterator[_Owned]:
    for name, link in topology.links.items():
        if link.prefix is not None:
            yield f"link {name}", ("topology", "links", name, "prefix"), link.prefix


def _branches(overlay: Overlay) -> Iterator[_Owned]:
    for name, branch in overlay.branches.items():
        yield f"branch {name}", ("overlay", "branches", name, "prefix"), branch.prefix


def _apart(owned: Iterable[_Owned]) -> Iterator[Issue]:
    taken = Prefixes()
    for network in RESERVED:
        taken.add("", network)
    for owner, loc, prefix in owned:
        if not 8 <= prefix.prefixlen <= 30:
            yield Issue(loc, f"found {prefix}, expected a prefix of 8 to 30 bits")
        for other, there in taken.overlapping(prefix):
            what = f"the prefix of {other}" if other else f"the reserved range {there}"
            yield Issue(loc, f"found {prefix}, which overlaps {what}")
        taken.add(owner, prefix)
