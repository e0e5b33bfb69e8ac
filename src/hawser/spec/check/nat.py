"""Branches behind NATs: somebody can connect, or a rendezvous introduces both ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from hawser.spec.errors import choices, found
from hawser.spec.explain import Loc
from hawser.spec.nat import behind_nats, direct_ports
from hawser.spec.overlay import Encryption, Overlay, PathGroup, SwitchKind, Transport
from hawser.spec.port import Port
from hawser.spec.route import ip_versions, route_branches, stops, switch_kind
from hawser.spec.topology import PortType, Topology
from hawser.spec.validate import Issue

_RENDEZVOUS: Loc = ("overlay", "rendezvous")
_Ends = tuple[Port, Port]
_Paths = tuple[Loc, Sequence[_Ends]]
"""The paths of a group between two branches, the lower number first, and where they are written."""


def leased_nats(topology: Topology) -> Iterator[Issue]:
    """Check that no leased line has a NAT."""
    for port, access in topology.internet.ports.items() if topology.internet else ():
        if access.nat is not None and access.type is PortType.LEASED:
            message = f"found {access.nat.value} at a leased line, expected none"
            yield Issue(("topology", "internet", "ports", port, "nat"), message)


def rendezvous(overlay: Overlay) -> Iterator[Issue]:
    """Check the rendezvous of an overlay by itself."""
    name = overlay.rendezvous
    if name is None:
        return
    if overlay.transport not in (Transport.QUIC, Transport.NONE):
        message = f"found one with the {overlay.transport.value} transport"
        yield Issue(_RENDEZVOUS, f"{message}, expected one only with quic")
    if name not in overlay.branches:
        yield Issue(_RENDEZVOUS, f"found {found(name)}, {choices(overlay.branches, name)}")
        return
    highest = max(overlay.branches, key=lambda each: overlay.branches[each].id)
    if highest != name:
        message = f"found {name}, expected the branch with the highest number, which is {highest}:"
        yield Issue(_RENDEZVOUS, f"{message} all others connect to it")


def nats(
    topology: Topology, overlay: Overlay, policy_groups: Collection[PathGroup] = ()
) -> Iterator[Issue]:
    """Check the branches behind NATs of an overlay that is right otherwise.

    Args:
        topology: the topology.
        overlay: the overlay.
        policy_groups: path groups that the overlay does not name.
    """
    behind = {
        port: name
        for name, branch in overlay.branches.items()
        for port in branch.wan_ports
        if port in behind_nats(topology)
    }
    if not behind or overlay.transport is Transport.NONE:
        return
    issues = [*_excluded(topology, overlay, next(iter(behind))), *_hidden(overlay, behind)]
    if issues:
        yield from issues
        return
    versions = ip_versions(topology, overlay) if overlay.rendezvous is None else {}
    yield from _unmet(overlay, behind, _groups(overlay, policy_groups, behind, versions))


def _excluded(topology: Topology, overlay: Overlay, port: Port) -> Iterator[Issue]:
    """Check that nothing needs to know the address behind the NAT of a port."""
    what = f"but {port} is behind a NAT"
    if overlay.transport is Transport.IPIP:
        message = f"found ipip, {what}, expected mptcp or quic"
        yield Issue(("overlay", "transport"), message)
    if overlay.transport is Transport.MPTCP and overlay.encryption is Encryption.NONE:
        message = f"found none, {what}, expected tls13: its certificate tells who connects"
        yield Issue(("overlay", "encryption"), message)
    kind = switch_kind(topology, overlay)
    if kind is not SwitchKind.NONE:
        message = f"found {kind.value}, {what}, expected none: entries of a switch name addresses"
        yield Issue(("overlay", "switch"), message)


def _hidden(overlay: Overlay, behind: Mapping[Port, str]) -> Iterator[Issue]:
    for port, name in behind.items():
        if name == overlay.rendezvous:
            message = f"found {name}, expected a branch with public addresses: {port} is behind a"
            yield Issue(_RENDEZVOUS, f"{message} NAT")


def _groups(
    overlay: Overlay,
    policy_groups: Collection[PathGroup],
    behind: Collection[Port],
    versions: Mapping[Port, Literal[4, 6]],
) -> Mapping[tuple[str, str], Sequence[_Paths]]:
    """Give the groups of all pairs of branches, the lower number first."""
    made: dict[tuple[str, str], list[_Paths]] = {}
    described: list[tuple[Loc, PathGroup]] = [
        (("overlay", "path_groups", name, "paths"), each)
        for name, each in overlay.path_groups.items()
    ]
    for loc, group in (*described, *((_RENDEZVOUS, each) for each in policy_groups)):
        pair = _by_number(overlay, route_branches(group.paths[0]))
        paths = [_ends(overlay, route, pair[0]) for route in group.paths]
        made.setdefault(pair, []).append((loc, paths))
    for each in overlay.default_pairs():
        pair = _by_number(overlay, each)
        if pair not in made:
            made[pair] = [(_RENDEZVOUS, direct_ports(overlay, pair, behind, versions))]
    return made


def _by_number(overlay: Overlay, pair: tuple[str, str]) -> tuple[str, str]:
    one, other = pair
    return pair if overlay.branches[one].id < overlay.branches[other].id else (other, one)


def _ends(overlay: Overlay, route: str, first: str) -> _Ends:
    """Give the ports at the two ends of a path, that of the first branch first."""
    passed = stops(route)
    one, other = (
        Port(overlay.branches[stop.branch].gateway, stop.port) for stop in (passed[0], passed[-1])
    )
    return (one, other) if passed[0].branch == first else (other, one)


def _unmet(
    overlay: Overlay,
    behind: Mapping[Port, str],
    groups: Mapping[tuple[str, str], Sequence[_Paths]],
) -> Iterator[Issue]:
    """Find paths whose connecting end does not know the address of the other."""
    for pair, of_pair in groups.items():
        for loc, paths in of_pair:
            for place, ends in enumerate(paths):
                if ends[1] not in behind:
                    continue
                if overlay.rendezvous is None:
                    yield _nobody(behind, pair, ends)
                    return
                for branch, port in zip(pair, ends, strict=True):
                    begins = [own for _, own in groups.get((branch, overlay.rendezvous), ())]
                    if not any(len(own) > place and own[place][0] == port for own in begins):
                        yield _unseen(overlay.rendezvous, loc, place, branch, port)


def _nobody(behind: Mapping[Port, str], pair: tuple[str, str], ends: _Ends) -> Issue:
    if ends[0] in behind:
        message = f"found none, but {pair[0]} and {pair[1]} are both behind a NAT, at {ends[0]} and"
        message += f" {ends[1]}; expected a branch with public addresses, which introduces them"
    else:
        message = f"found none, but {pair[0]} connects to {pair[1]}, which has the higher number"
        message += f" and is behind a NAT at {ends[1]}; expected a branch with public addresses,"
        message += " which introduces them, or the numbers the other way round"
    return Issue(_RENDEZVOUS, message)


def _unseen(rendezvous: str, loc: Loc, place: int, branch: str, port: Port) -> Issue:
    message = f"found a path from {port} behind NAT at place {place + 1}, where no path from"
    message += f" {branch} to the rendezvous {rendezvous} begins at that port"
    where = (*loc, place) if loc != _RENDEZVOUS else loc
    return Issue(where, f"{message}; expected the same places")
