"""Path groups of every pair of branches, the default ones put in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, cycle, islice, product

from hawser.spec.overlay import Branch, Overlay, SwitchKind, TrafficType, Transport
from hawser.spec.route import Stop, hops, leased, route_branches, switch_kind, turned
from hawser.spec.topology import Topology

Port = str
"""A WAN port, `node.port`."""

Pair = tuple[str, str]
"""Names of two branches, the one with the lower number first: it connects, the other listens."""


@dataclass(frozen=True)
class Path:
    """A member path."""

    agents: tuple[Port, Port]
    """Whose addresses it has at the agents, at the first and the second branch."""
    hops: tuple[tuple[Port, Port], ...]
    """Its WAN hops: where packets leave a branch and where they arrive."""


@dataclass(frozen=True)
class Group:
    """A path group."""

    number: int
    traffic: TrafficType
    paths: tuple[Path, ...]
    """Member paths, from the first branch to the second."""


Groups = dict[Pair, list[Group]]
"""Groups of every pair of branches, in the order of their numbers."""


def groups(topology: Topology, overlay: Overlay) -> Groups:
    """Give the groups of every pair of branches: those described, else the default ones."""
    switched = switch_kind(topology, overlay) is not SwitchKind.NONE
    given = _given(overlay, switched=switched and overlay.transport is Transport.MPTCP)
    by_id = sorted(overlay.branches, key=lambda name: overlay.branches[name].id)
    return {
        pair: given.get(pair) or _default(topology, overlay, pair, switched=switched)
        for pair in combinations(by_id, 2)
    }


def _given(overlay: Overlay, *, switched: bool) -> Groups:
    result: Groups = {}
    for group in overlay.path_groups.values():
        routes = [_ordered(overlay, route) for route in group.paths]
        pair = route_branches(routes[0])
        there = result.setdefault(pair, [])
        number = len(there) if group.id is None else group.id
        there.append(Group(number, group.traffic, _paths(overlay, pair, routes, switched=switched)))
    for there in result.values():
        there.sort(key=lambda group: group.number)
    return result


def _ordered(overlay: Overlay, route: str) -> str:
    """Write a path from the branch with the lower number."""
    first, second = (overlay.branches[branch].id for branch in route_branches(route))
    return route if first < second else turned(route)


def _paths(overlay: Overlay, pair: Pair, routes: list[str], *, switched: bool) -> tuple[Path, ...]:
    """Give each subflow that is switched its path; else a path's ends are its addresses."""
    ways = [
        tuple((_port(overlay, out), _port(overlay, into)) for out, into in hops(route))
        for route in routes
    ]
    if not switched:
        return tuple(Path((way[0][0], way[-1][1]), way) for way in ways)
    agents = _every(*(overlay.branches[name] for name in pair))
    return tuple(Path(ends, way) for ends, way in zip(agents, ways, strict=True))


def _default(topology: Topology, overlay: Overlay, pair: Pair, *, switched: bool) -> list[Group]:
    """Give one group of all pairs of ports; where both have leased lines, another over those.

    A leased line reaches leased lines only: a subflow between two ports that do not reach each
    other takes one of the paths that there are.
    """
    if not switched:
        return [Group(0, TrafficType.II, _repeated(overlay, pair, _direct(overlay, pair)))]
    lines = leased(topology)
    direct = _direct(overlay, pair)
    alike = [hop for hop in direct if len({_port(overlay, s) in lines for s in hop}) == 1]
    urgent = [hop for hop in alike if _port(overlay, hop[0]) in lines]
    found = [Group(0, TrafficType.II, _repeated(overlay, pair, alike))] if alike else []
    if urgent:
        found.append(Group(len(found), TrafficType.I, _repeated(overlay, pair, urgent)))
    return found


def _direct(overlay: Overlay, pair: Pair) -> list[tuple[Stop, Stop]]:
    first, second = pair
    return [
        (Stop(first, a), Stop(second, b))
        for a, b in product(overlay.branches[first].wan, overlay.branches[second].wan)
    ]


def _repeated(overlay: Overlay, pair: Pair, ways: list[tuple[Stop, Stop]]) -> tuple[Path, ...]:
    """Give every subflow one of the paths, in turn. With `quic` a path need not be repeated."""
    if overlay.transport is Transport.QUIC:
        found = [(_port(overlay, out), _port(overlay, into)) for out, into in ways]
        return tuple(Path(way, (way,)) for way in found)
    agents = _every(*(overlay.branches[name] for name in pair))
    ports = [(_port(overlay, out), _port(overlay, into)) for out, into in ways]
    return tuple(
        Path(ends, (way,))
        for ends, way in zip(agents, islice(cycle(ports), len(agents)), strict=True)
    )


def _port(overlay: Overlay, stop: Stop) -> Port:
    return f"{overlay.branches[stop.branch].gateway}.{stop.port}"


def _every(first: Branch, second: Branch) -> list[tuple[Port, Port]]:
    """Give every pair of WAN ports: the addresses of the subflows, in order (004 section III.A)."""
    return [
        (f"{first.gateway}.{a}", f"{second.gateway}.{b}") for a in first.wan for b in second.wan
    ]
