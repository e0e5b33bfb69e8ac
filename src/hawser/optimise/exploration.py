"""More member paths for a group that relies on tunnels of which nothing has been measured.

A declared rate is often more than a tunnel carries. A group that was chosen for such rates would
turn out too small, get one or two other paths at the next change, and so on. With paths over all
tunnels that might help, one change measures them at once. They cost connections, and nothing else:
gateways send each packet where it arrives first, so a path carries something only while the better
ones are full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Final

from hawser.optimise.members import Member, Way, members, reverse
from hawser.optimise.program import Flows
from hawser.optimise.wan import Pair, Wan
from hawser.spec.overlay import MAX_PATHS
from hawser.spec.route import Hop, Stop

_ROOM: Final = 0.1
"""Share of a tunnel, and of a transit's port, that has to be left beside what others send there."""


def explored(
    pair: Pair, ways: Sequence[Way], flows: Flows, wan: Wan, most: int = MAX_PATHS
) -> tuple[Way, ...]:
    """Add paths to the group of two branches, if it leads over unmeasured tunnels to transits.

    Each next path is the one with the most unmeasured tunnels that the group does not use yet, then
    the one whose ports at both ends, then at transits too, the fewest of those before share: the
    places of a group are spread over pairs of ports, too. A path of the optimum that shares an
    unmeasured tunnel with one before gives way to others, if these use all its tunnels: so a group
    of few places has all tunnels in it.

    Args:
        pair: from the one that comes first in the alphabet.
        ways: its member paths in an optimum.
        flows: the optimum.
        wan: ports and tunnels.
        most: most member paths of a group.
    """
    if wan.unmeasured.isdisjoint(hop for way in ways if len(way) > 1 for hop in _both(way)):
        return tuple(ways)
    kept, doubled = _apart(ways, wan)
    found = _covering(pair, kept, flows, wan, most)
    used = {hop for way in found for hop in way}
    back = [way for way in doubled if not used.issuperset(way)]
    return (*found[: max(len(kept), most - len(back))], *back)


def _apart(ways: Iterable[Way], wan: Wan) -> tuple[list[Way], list[Way]]:
    """Give the paths that share no unmeasured tunnel with one before, and the others."""
    kept, doubled, used = list[Way](), list[Way](), set[Hop]()
    for way in ways:
        unknown = wan.unmeasured.intersection(way)
        (doubled if unknown & used else kept).append(way)
        used |= unknown
    return kept, doubled


def _covering(
    pair: Pair, ways: Sequence[Way], flows: Flows, wan: Wan, most: int
) -> tuple[Way, ...]:
    """Add paths until they use all unmeasured tunnels that have room, or are too many."""
    room = _Room(flows, wan, pair)
    candidates = {way: room.of(way) for way in _ways(pair, wan) if way not in ways}
    candidates = {way: left for way, left in candidates.items() if left > 0}
    new = wan.unmeasured - {hop for way in ways for hop in _both(way)}
    ends, used = list(map(_ends, ways)), [stop for way in ways for stop in _stops(way)]
    found = list(ways)
    while candidates and len(found) < most:
        best = min(
            candidates,
            key=lambda way: (
                -len(new.intersection(_both(way))),
                ends.count(_ends(way)),
                sum(map(used.count, _stops(way))),
                -candidates[way],
                way,
            ),
        )
        if new.isdisjoint(_both(best)):
            break
        del candidates[best]
        found.append(best)
        ends.append(_ends(best))
        new -= frozenset(_both(best))
        used += _stops(best)
    return tuple(found)


class _Room:
    """What the optimum leaves of tunnels, and of ports of transits, beside what others send.

    What two branches send over transits themselves does not count: if a tunnel carries less than
    was declared, they send it another way.
    """

    def __init__(self, flows: Flows, wan: Wan, pair: Pair) -> None:
        self._wan = wan
        loads = dict(flows.loads)
        by_pair = members(flows)
        for member in _through_transits(by_pair, pair):
            for hop in member.way:
                loads[hop] = loads.get(hop, 0.0) - member.rate
        self._loads: Mapping[Hop, float] = loads
        self._out, self._into = dict[Stop, float](), dict[Stop, float]()
        for (left, came), load in loads.items():
            self._out[left] = self._out.get(left, 0.0) + load
            self._into[came] = self._into.get(came, 0.0) + load

    def of(self, way: Way) -> float:
        """Give what is left for a path, both directions, bit/s; 0 if that is not worth it."""
        return min(self._one_way(way), self._one_way(reverse(way)))

    def _one_way(self, way: Way) -> float:
        limits = [(self._wan.tunnels[hop], self._loads.get(hop, 0.0)) for hop in way]
        for (_, came), (left, _) in pairwise(way):
            limits.append((self._wan.ports[came].ingress, self._into.get(came, 0.0)))
            limits.append((self._wan.ports[left].egress, self._out.get(left, 0.0)))
        if any(limit - load <= _ROOM * limit < float("inf") for limit, load in limits):
            return 0.0
        return min(limit - load for limit, load in limits)


def _through_transits(found: Mapping[Pair, Iterable[Member]], pair: Pair) -> Iterator[Member]:
    both = (*found.get(pair, ()), *found.get(pair[::-1], ()))
    yield from (member for member in both if len(member.way) > 1)


def _ways(pair: Pair, wan: Wan) -> Iterator[Way]:
    """Give all paths of two branches that can be used both ways."""
    hops: dict[Pair, list[Hop]] = {}
    for hop in wan.tunnels:
        if (hop[1], hop[0]) in wan.tunnels:
            hops.setdefault((hop[0].branch, hop[1].branch), []).append(hop)
    one, other = pair
    found: list[Way] = [(hop,) for hop in hops.get(pair, ())]
    for transit in sorted({there for here, there in hops if here == one} - {other}):
        found += product(hops[one, transit], hops.get((transit, other), ()))
    return (way for way in found if wan.admits(way))


def _ends(way: Way) -> tuple[Stop, Stop]:
    return way[0][0], way[-1][1]


def _both(way: Way) -> tuple[Hop, ...]:
    return (*way, *reverse(way))


def _stops(way: Way) -> list[Stop]:
    return [stop for hop in way for stop in hop]
