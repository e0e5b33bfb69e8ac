"""From an optimum to path groups: at most 16 member paths each, disjoint ones first.

A group joins two branches in both directions over the same paths, so it has the paths of both. The
optimum says how much passes each hop by which tunnels, for all pairs together; a pair's flows are
laid into these tunnels one after the other. Some pairs then have very small paths: those that add
less than 1 % are left out, as each costs probes and a connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hawser.optimise.program import Flows
from hawser.optimise.wan import Pair, Wan
from hawser.spec.overlay import MAX_PATHS
from hawser.spec.route import Hop, Stop

Way = tuple[Hop, ...]
"""A member path: its WAN hops."""
Groups = Mapping[Pair, tuple[Way, ...]]
"""Member paths by pair of branches, from the one that comes first in the alphabet."""

_NOTHING: Final = 1.0
"""Rates below so many bit/s are rounding."""
_SMALL: Final = 0.01
"""Share of its group's rate below which a path is left out."""


@dataclass(frozen=True)
class Member:
    """A path and what the optimum sends on it, bit/s."""

    way: Way
    rate: float


def route(way: Way) -> str:
    """Write a path as in a workflow: `b1.a>b3.a>b3.b>b2.a`."""
    return ">".join(f"{stop.branch}.{stop.port}" for hop in way for stop in hop)


def reverse(way: Way) -> Way:
    """Give a path in the other direction."""
    return tuple((arrived, left) for left, arrived in reversed(way))


def members(flows: Flows) -> Mapping[Pair, tuple[Member, ...]]:
    """Lay the flows of an optimum into its tunnels. Pairs are directions here."""
    tunnels = _Tunnels(flows.loads)
    by_rate = sorted(flows.ways, key=lambda pair: (-sum(flows.ways[pair].values()), pair))
    found: dict[Pair, dict[Way, float]] = {pair: {} for pair in by_rate}
    for direct in (True, False):  # paths with one hop choose first
        for pair in by_rate:
            ways = flows.ways[pair]
            for transit in sorted(ways, key=lambda name: (-ways[name], name or "")):
                if (transit is None) is direct:
                    tunnels.lay(pair, transit, ways[transit], found[pair])
    return {
        pair: tuple(Member(way, rate) for way, rate in ways.items())
        for pair, ways in found.items()
        if ways
    }


class _Tunnels:
    """What is left of the loads of each hop's tunnels."""

    def __init__(self, loads: Mapping[Hop, float]) -> None:
        self._left: dict[Pair, dict[Hop, float]] = {}
        for hop, load in sorted(loads.items()):
            pair = hop[0].branch, hop[1].branch
            self._left.setdefault(pair, {})[hop] = load

    def lay(self, pair: Pair, transit: str | None, amount: float, ways: dict[Way, float]) -> None:
        """Add paths for an amount to those that the pair has."""
        one, other = pair
        hops = [pair] if transit is None else [(one, transit), (transit, other)]
        while amount > _NOTHING:
            way = tuple(self._roomiest(hop, ways) for hop in hops)
            if any(each is None for each in way):
                return  # rounding has left nothing
            taken = tuple(each for each in way if each is not None)
            rate = min(amount, *(self._left[hop][t] for hop, t in zip(hops, taken, strict=True)))
            for hop, tunnel in zip(hops, taken, strict=True):
                self._take(hop, tunnel, rate)
            ways[taken] = ways.get(taken, 0.0) + rate
            amount -= rate

    def _roomiest(self, hop: Pair, ways: Iterable[Way]) -> Hop | None:
        """Give the tunnel with the most room, first those whose ports the pair does not use yet."""
        left = self._left.get(hop, {})
        used = {stop for way in ways for tunnel in way for stop in tunnel}
        return max(left, key=lambda t: (-len(used.intersection(t)), left[t], t), default=None)

    def _take(self, hop: Pair, tunnel: Hop, rate: float) -> None:
        self._left[hop][tunnel] -= rate
        if self._left[hop][tunnel] <= _NOTHING:
            del self._left[hop][tunnel]


def groups(flows: Flows, wan: Wan, most: int = MAX_PATHS) -> dict[Pair, tuple[Way, ...]]:
    """Give each two branches that exchange anything their group.

    Args:
        flows: the optimum.
        wan: ports and tunnels, for the spare path of a group that would have only one.
        most: most member paths of a group.
    """
    both: dict[Pair, dict[Way, float]] = {}
    for (source, target), found in members(flows).items():
        pair, turned = ((source, target), False) if source < target else ((target, source), True)
        rates = both.setdefault(pair, {})
        for member in found:
            way = reverse(member.way) if turned else member.way
            rates[way] = rates.get(way, 0.0) + member.rate
    chosen = {pair: _chosen(pair, rates, wan, most) for pair, rates in sorted(both.items())}
    return {pair: ways for pair, ways in chosen.items() if ways}


def _chosen(pair: Pair, rates: Mapping[Way, float], wan: Wan, most: int) -> tuple[Way, ...]:
    """Leave out small paths, and put disjoint ones first."""
    least = _SMALL * sum(rates.values())
    wanted = {way: rate for way, rate in rates.items() if rate >= least and wan.admits(way)}
    largest = sorted(wanted, key=lambda way: (-wanted[way], way))[:most]
    ordered = _disjoint_first({way: wanted[way] for way in largest})
    if len(ordered) == 1 and (spare := _spare(pair, ordered[0], wan)):
        ordered.append(spare)
    return tuple(ordered)


def _disjoint_first(rates: Mapping[Way, float]) -> list[Way]:
    """Order paths: each next one shares the fewest ports with those before, then carries most."""
    left, ordered, used = dict(rates), list[Way](), set[Stop]()
    while left:
        best = min(left, key=lambda way: (len(used & _stops(way)), -left[way], way))
        del left[best]
        ordered.append(best)
        used |= _stops(best)
    return ordered


def _spare(pair: Pair, only: Way, wan: Wan) -> Way | None:
    """Give the direct path that is used when the only other one fails."""
    direct = [t for t in wan.tunnels if (t[0].branch, t[1].branch) == pair and (t,) != only]
    used = _stops(only)
    best = min(direct, key=lambda t: (len(used & set(t)), -wan.tunnels[t], t), default=None)
    return None if best is None else (best,)


def _stops(way: Way) -> set[Stop]:
    return {stop for hop in way for stop in hop}


def described(found: Mapping[Pair, Sequence[Way]]) -> dict[Pair, tuple[str, ...]]:
    """Write groups as in a workflow."""
    return {pair: tuple(map(route, ways)) for pair, ways in found.items()}
