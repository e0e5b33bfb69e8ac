"""Path groups of every pair of branches, including the default ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from itertools import combinations, cycle, islice

from hawser.overlay.sdwan.branch import Branch, WanPort
from hawser.spec.access import may_talk
from hawser.spec.model import Model
from hawser.spec.nat import port_pairs
from hawser.spec.overlay import PathGroup, Settings, TrafficType, Transport
from hawser.spec.pair import branch_of, is_second
from hawser.spec.route import Hop, Stop, hops, route_branches, turned
from hawser.spec.topology import PortType

Pair = tuple[str, str]
"""Names of two branches, the lower number first. The first connects, the second listens."""


class Path(Model):
    """A member path."""

    agents: tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address]
    """Addresses that the agents of the first and the second branch use for it."""
    hops: tuple[Hop, ...]
    """Its WAN hops: where packets leave a branch and where they arrive."""


class Group(Model):
    """A path group."""

    branches: Pair
    number: int
    traffic: TrafficType
    paths: tuple[Path, ...]
    """Member paths, from the first branch to the second."""


def groups(
    branches: Mapping[str, Branch],
    described: Iterable[PathGroup],
    settings: Settings,
    *,
    switched: bool,
    known: Mapping[Pair, tuple[Group, ...]] | None = None,
) -> tuple[Group, ...]:
    """Give the groups of every pair of branches: those described, else the default ones.

    With hubs, only pairs with one of them have default groups, and pairs that may not exchange
    packets by `access` have none. With a rendezvous, paths have the order by which it introduces
    branches behind NATs. Groups are ordered by the numbers of
    the branches, then by the number of the group. Default groups that are `known` are not made.
    """
    made = _Groups(branches, settings, switched=switched)
    given = made.given(described)
    by_id = sorted(branches, key=lambda name: branches[name].id)
    pairs: Iterable[Pair] = combinations(by_id, 2)
    if any(is_second(name) for name in branches):  # two gateways of a branch have no tunnel
        pairs = (pair for pair in pairs if branch_of(pair[0]) != branch_of(pair[1]))
    if settings.hubs:
        central = {name for name in branches if branch_of(name) in settings.hubs}
        pairs = (p for p in pairs if p[0] in central or p[1] in central or p in given)
    if settings.access:
        pairs = (pair for pair in pairs if may_talk(settings.access, *map(branch_of, pair)))
    old = known or {}
    return tuple(
        group for pair in pairs for group in given.get(pair) or old.get(pair) or made.default(pair)
    )


def described_pairs(
    branches: Mapping[str, Branch], described: Iterable[PathGroup]
) -> frozenset[Pair]:
    """Give the pairs of branches that have groups of their own."""
    ends = (route_branches(group.paths[0]) for group in described)
    return frozenset(
        (one, other) if branches[one].id < branches[other].id else (other, one)
        for one, other in ends
    )


class _Groups:
    """Makes groups."""

    def __init__(
        self, branches: Mapping[str, Branch], settings: Settings, *, switched: bool
    ) -> None:
        self._branches = branches
        self._switched = switched
        self._rendezvous = settings.rendezvous
        self._quic = settings.transport is Transport.QUIC
        self._multipath = settings.transport is Transport.MPTCP
        self._of_pairs = settings.label_space.of_pairs
        self._addressed = switched and self._multipath
        """Whether the agents' addresses of a path do not determine its WAN hops."""

    def given(self, described: Iterable[PathGroup]) -> dict[Pair, list[Group]]:
        """Give the described groups by their branches."""
        result: dict[Pair, list[Group]] = {}
        for group in described:
            routes = [self._ordered(route) for route in group.paths]
            pair = route_branches(routes[0])
            there = result.setdefault(pair, [])
            number = len(there) if group.id is None else group.id
            paths = self._paths(pair, [tuple(hops(route)) for route in routes])
            there.append(Group(branches=pair, number=number, traffic=group.traffic, paths=paths))
        return {pair: sorted(there, key=_number) for pair, there in result.items()}

    def _ordered(self, route: str) -> str:
        """Turn a path so that it starts at the branch with the lower number."""
        first, second = (self._branches[branch].id for branch in route_branches(route))
        return route if first < second else turned(route)

    def _paths(self, pair: Pair, ways: list[tuple[Hop, ...]]) -> tuple[Path, ...]:
        """Give paths their agents' addresses: the ends of each way, or pairs of ports in order."""
        if not self._addressed:
            return tuple(self._path((way[0][0], way[-1][1]), way) for way in ways)
        ends = self._direct(pair)
        return tuple(self._path(end, way) for end, way in zip(ends, ways, strict=True))

    def _path(self, ends: Hop, way: tuple[Hop, ...]) -> Path:
        """Make a path between two ports.

        MPTCP connections are accepted on the port's second address, if it has one.
        """
        connects, listens = map(self._port, ends)
        taken = listens.listen if self._multipath else listens.agent
        return Path(agents=(connects.agent, taken), hops=way)

    def _port(self, stop: Stop) -> WanPort:
        return self._branches[stop.branch].ports[stop.port]

    def default(self, pair: Pair) -> Iterator[Group]:
        """Give a Type II group over all pairs of ports and, with a switch, a Type I group.

        The Type I group uses pairs of leased lines, if there are any. A leased line reaches only
        leased lines: a subflow between two ports that do not reach each other takes one of the
        existing paths. Two gateways without ports that reach each other have no group.
        """
        direct, number = self._direct(pair), self._first_number(pair)
        if not self._switched:
            if direct:
                yield self._group(pair, number, TrafficType.II, direct)
            return
        alike = [hop for hop in direct if len({self._leased(stop) for stop in hop}) == 1]
        urgent = [hop for hop in alike if self._leased(hop[0])]
        if alike:
            yield self._group(pair, number, TrafficType.II, alike)
        if urgent:
            yield self._group(pair, number + 1, TrafficType.I, urgent)

    def _group(self, pair: Pair, number: int, traffic: TrafficType, ways: list[Hop]) -> Group:
        """Assign the ways to the subflows in turn; with `quic` there is one path per way."""
        ends = ways if self._quic else self._direct(pair)
        turns = islice(cycle(ways), len(ends))
        paths = (self._path(end, (way,)) for end, way in zip(ends, turns, strict=True))
        return Group(branches=pair, number=number, traffic=traffic, paths=tuple(paths))

    def _leased(self, stop: Stop) -> bool:
        return self._port(stop).type is PortType.LEASED

    def _direct(self, pair: Pair) -> list[Hop]:
        """Give the default pairs of WAN ports, in the order of the subflows (004 III.A).

        Both ports of a pair have addresses of the same version of IP.
        """
        first, second = pair
        theirs = self._branches[second].ports
        hidden = any(port.behind_nat for port in theirs.values())
        found = port_pairs(
            tuple(self._branches[first].ports),
            tuple(theirs),
            rendezvous=second == self._rendezvous,
            introduced=hidden and self._rendezvous is not None,
        )
        ends = [(Stop(first, a), Stop(second, b)) for a, b in found]
        return [hop for hop in ends if len({self._port(stop).agent.version for stop in hop}) == 1]

    def _first_number(self, pair: Pair) -> int:
        """Give the number of two gateways' first default group, unique among their branches'."""
        combination = is_second(pair[0]) + 2 * is_second(pair[1])
        return self._of_pairs + 2 * (combination - 1) if combination else 0


def _number(group: Group) -> int:
    return group.number
