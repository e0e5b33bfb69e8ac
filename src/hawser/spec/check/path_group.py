"""Path groups: their paths are complete, and no two have the same label."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.nat import direct_ports
from hawser.spec.overlay import (
    MAX_PATHS,
    Branch,
    Overlay,
    PathGroup,
    SwitchKind,
    Transport,
)
from hawser.spec.port import Port
from hawser.spec.route import (
    Stop,
    has_transit,
    hops,
    ip_versions,
    leased,
    route_branches,
    stops,
    switch_kind,
)
from hawser.spec.topology import Topology
from hawser.spec.validate import Issue

_SWITCHED = (Transport.MPTCP, Transport.QUIC)
"""Transports whose paths a switch can forward."""


def path_groups(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check the path groups of an overlay whose branches fit the topology."""
    sound: dict[str, PathGroup] = {}
    for name, group in overlay.path_groups.items():
        issues = list(_paths(topology, overlay, name))
        yield from issues
        if not issues:
            sound[name] = group
    yield from _labels(overlay, sound)
    if overlay.transport is Transport.IPIP:
        yield from _tunnels(sound)
    if overlay.transport in _SWITCHED:
        yield from _subflows(topology, overlay, sound)
    if overlay.transport is not Transport.NONE:
        yield from _apart(topology, overlay, sound)


def _paths(topology: Topology, overlay: Overlay, name: str) -> Iterator[Issue]:
    group = overlay.path_groups[name]
    loc: Loc = ("overlay", "path_groups", name, "paths")
    issues = [
        Issue((*loc, index), message)
        for index, route in enumerate(group.paths)
        for message in _route(topology, overlay, route)
    ]
    yield from issues
    if issues:
        return
    if len({frozenset(route_branches(route)) for route in group.paths}) > 1:
        yield Issue(loc, "found paths of several pairs of branches, expected all of one pair")
    elif overlay.transport is Transport.MPTCP:
        if switch_kind(topology, overlay) is SwitchKind.NONE:
            yield from _repeated(group, loc)
            yield from _full(overlay, group, loc)
        else:
            yield from _one_each(overlay, group, loc)


def _route(topology: Topology, overlay: Overlay, route: str) -> Iterator[str]:
    """Say what is wrong with one path."""
    passed = stops(route)
    unknown = list(_unknown(overlay, passed))
    yield from unknown
    if unknown:
        return
    wrong = _unpaired(passed) or _twice(passed)
    if wrong is None and has_transit(route):
        wrong = _unswitched(overlay)
    if wrong is None:
        wrong = _unjoined(topology, overlay, route)
    if wrong is not None:
        yield wrong


def _unknown(overlay: Overlay, passed: list[Stop]) -> Iterator[str]:
    for stop in passed:
        if stop.branch not in overlay.branches:
            yield near(overlay.branches, stop.branch, "branch")
        elif stop.port not in overlay.branches[stop.branch].wan:
            wan = overlay.branches[stop.branch].wan
            yield near(wan, stop.port, f"WAN port of branch {stop.branch}")


def _unpaired(passed: list[Stop]) -> str | None:
    """Check that a transit branch has two ports: those of arrival and departure."""
    for arrived, left in zip(passed[1:-1:2], passed[2:-1:2], strict=False):
        if arrived.branch != left.branch:
            return _names_one(arrived.branch)
    if len(passed) % 2:
        return _names_one(passed[-2].branch)
    return None


def _names_one(branch: str) -> str:
    message = f"found one port of transit branch {branch}, expected two: where packets arrive and"
    return f"{message} where they leave, such as b1.a>b3.a>b3.b>b2.a"


def _twice(passed: list[Stop]) -> str | None:
    branches = [stop.branch for stop in (*passed[::2], passed[-1])]
    if len(passed) == 2 and branches[0] == branches[1]:
        return f"found a path within branch {branches[0]}, expected two branches"
    again = next((b for index, b in enumerate(branches) if b in branches[:index]), None)
    return None if again is None else f"found a path that visits branch {again} twice"


def _unswitched(overlay: Overlay) -> str | None:
    if overlay.transport in _SWITCHED and overlay.switch is SwitchKind.NONE:
        return "found a path through another branch, which needs a switch: bpf or openflow"
    return None


def _unjoined(topology: Topology, overlay: Overlay, route: str) -> str | None:
    """Check that no hop connects a leased line and the internet, and none IPv4 and IPv6."""
    lines, versions = leased(topology), ip_versions(topology, overlay)
    for hop in hops(route):
        if len({_port(overlay, stop) in lines for stop in hop}) > 1:
            one, other = (f"{stop.branch}.{stop.port}" for stop in hop)
            return f"found {one}>{other}, but only one of these ports is a leased line"
    passed = {versions.get(_port(overlay, stop)): stop for stop in stops(route)}
    if {4, 6}.issubset(passed):
        four, six = (f"{passed[each].branch}.{passed[each].port}" for each in (4, 6))
        return f"found {route}, but {four} has IPv4 and {six} has IPv6"
    return None


def _port(overlay: Overlay, stop: Stop) -> Port:
    return Port(overlay.branches[stop.branch].gateway, stop.port)


def _repeated(group: PathGroup, loc: Loc) -> Iterator[Issue]:
    """Check for repeated paths: without a switch a path is given by its two ends."""
    seen: set[frozenset[Stop]] = set()
    for index, route in enumerate(group.paths):
        ends = frozenset(stops(route))
        if ends in seen:
            yield Issue((*loc, index), f"found the path {route} again")
        seen.add(ends)


def _full(overlay: Overlay, group: PathGroup, loc: Loc) -> Iterator[Issue]:
    first, second = route_branches(group.paths[0])
    given = {frozenset(stops(route)) for route in group.paths}
    missing = [
        f"{first}.{a}>{second}.{b}"
        for a in overlay.branches[first].wan
        for b in overlay.branches[second].wan
        if frozenset((Stop(first, a), Stop(second, b))) not in given
    ]
    if missing:
        message = "with the mptcp transport a group has all pairs of WAN ports; missing: "
        yield Issue(loc, message + ", ".join(missing))


def _one_each(overlay: Overlay, group: PathGroup, loc: Loc) -> Iterator[Issue]:
    """Check that there is one member path for each subflow, that is, for each pair of WAN ports."""
    first, second = route_branches(group.paths[0])
    n, m = (len(overlay.branches[branch].wan) for branch in (first, second))
    if len(group.paths) != n * m:
        message = f"found {len(group.paths)} member paths, expected {n * m}: one for each subflow,"
        message += f" and {first} and {second} have {n} x {m} of them"
        yield Issue(loc, message)


def _labels(overlay: Overlay, groups: dict[str, PathGroup]) -> Iterator[Issue]:
    """No two groups of a pair of branches may have the same number, nor more than there are."""
    narrow = overlay.transport is Transport.MPTCP
    space = overlay.label_space
    pairs: dict[frozenset[str], dict[int, str]] = {}
    for name, group in groups.items():
        pair = frozenset(route_branches(group.paths[0]))
        numbers = pairs.setdefault(pair, {})
        loc: Loc = ("overlay", "path_groups", name)
        between = " and ".join(sorted(pair))
        ends = [overlay.branches[branch] for branch in pair]
        if len(group.paths) > (most := _most(ends) if narrow else MAX_PATHS):
            message = f"found {len(group.paths)} member paths, expected at most {most}"
            yield Issue((*loc, "paths"), f"{message} between {between}")
        if len(numbers) == space.groups:
            message = f"found one group more than the {space.groups} that {between} may have"
            yield Issue(loc, message, key=True)
            continue
        number = len(numbers) if group.id is None else group.id
        if number >= space.groups:
            message = f"found {number}, expected 0 to {space.groups - 1}"
            message += f": with {space.cause} it has {space.group_bits} bits"
            yield Issue((*loc, "id"), message)
        if number in numbers:
            where = loc if group.id is None else (*loc, "id")
            message = f"found the number {number} of group {numbers[number]} again, between"
            yield Issue(where, f"{message} {between}", key=group.id is None)
        numbers.setdefault(number, name)


def _tunnels(groups: dict[str, PathGroup]) -> Iterator[Issue]:
    """Check first paths, the only ones used: they are direct, and no two have the same ends."""
    ends: dict[frozenset[Stop], str] = {}
    for name, group in groups.items():
        loc: Loc = ("overlay", "path_groups", name, "paths", 0)
        first = group.paths[0]
        if has_transit(first):
            message = f"found {first}, expected a direct path: with the ipip transport a group is"
            yield Issue(loc, f"{message} a tunnel over its first path")
            continue
        pair = frozenset(stops(first))
        if pair in ends:
            yield Issue(loc, f"found {first}, over which group {ends[pair]} is a tunnel too")
        ends.setdefault(pair, name)


def _subflows(
    topology: Topology, overlay: Overlay, groups: dict[str, PathGroup]
) -> Iterator[Issue]:
    """Check the number of default paths: one for each pair of WAN ports without a group."""
    narrow = overlay.transport is Transport.MPTCP
    versions = ip_versions(topology, overlay)
    described = {frozenset(route_branches(group.paths[0])) for group in groups.values()}
    for first, second in overlay.default_pairs():
        if not narrow and {first, second} in described:
            continue
        ends = overlay.branches[first], overlay.branches[second]
        count = len(direct_ports(overlay, (first, second), (), versions))
        most = _most(ends) if narrow else MAX_PATHS
        if count > most:
            message = f"found {count} paths to branch {first}, expected at most {most}"
            message += ": a path label has no more numbers for them" if narrow else " in a group"
            yield Issue(("overlay", "branches", second, "wan"), message)


def _most(ends: Sequence[Branch]) -> int:
    """Give how many member paths a group of these two branches may have.

    From branch 0, the label of the sixteenth would be the port of an agent.
    """
    return MAX_PATHS if all(branch.id for branch in ends) else MAX_PATHS - 1


def _apart(topology: Topology, overlay: Overlay, groups: dict[str, PathGroup]) -> Iterator[Issue]:
    """Check that two branches without a path group have ports that reach each other."""
    lines = leased(topology) if overlay.transport in _SWITCHED else set[Port]()
    versions = ip_versions(topology, overlay)
    described = {frozenset(route_branches(group.paths[0])) for group in groups.values()}
    kinds = {
        name: {(port in lines, versions.get(port, 4)) for port in branch.wan_ports}
        for name, branch in overlay.branches.items()
    }
    for first, second in overlay.default_pairs():
        if not kinds[first] & kinds[second] and {first, second} not in described:
            why = _why(kinds[first], kinds[second])
            message = f"found no port that reaches branch {first}: {why}"
            yield Issue(("overlay", "branches", second, "wan"), message)


def _why(first: Collection[tuple[bool, int]], second: Collection[tuple[bool, int]]) -> str:
    """Say why ports do not reach each other, and what helps."""
    if not {version for _, version in first} & {version for _, version in second}:
        message = "one of the two branches has only IPv4 and the other only IPv6;"
        return f"{message} expected ports of the same version, or no tunnel between them (hubs)"
    message = "leased lines and internet ports of the two have different versions of IP"
    if not {line for line, _ in first} & {line for line, _ in second}:
        message = "one of the two branches has only leased lines and the other has none"
    return f"{message}; expected a path group between them"
