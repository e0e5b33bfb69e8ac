"""Path groups of branches whose member paths are chosen automatically (`overlay.paths`).

A gateway keeps a group, with its connections and the packets in it, as long as the group has the
same number of paths: each path then moves by itself, or not at all where only its transit changes.
So such groups have more places than direct paths, each path keeps its place from one choice to the
next, and places that are not needed repeat a path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import cycle, islice, product

from hawser.spec.overlay import MAX_PATHS, Overlay, PathGroup, Paths
from hawser.spec.port import Port
from hawser.spec.route import Stop, hops, route_branches, stops

Choice = Mapping[tuple[str, str], tuple[str, ...]]
"""Member paths by pair of branches, from the one that comes first in the alphabet."""

_MORE = 2
"""Places for paths through a transit branch, at least."""
_FEW = 16
"""Up to so many branches a group has places for all tunnels to transits, as far as 16 go: it then
need not be made anew when they are tried. With more branches so many connections cost too much."""


def automatic_groups(
    overlay: Overlay, leased: Collection[Port], chosen: Choice
) -> Iterator[PathGroup]:
    """Give the groups of all branches that have no described ones.

    Args:
        overlay: branches and described groups.
        leased: WAN ports that are leased lines, which reach only each other.
        chosen: what was chosen; the direct paths are used where that is nothing, or cannot be used.
    """
    if overlay.paths is Paths.AUTOMATIC:
        for pair in automatic_pairs(overlay):
            routes = chosen.get(pair, ())
            if not routes or not is_usable(overlay, leased, routes):
                routes = direct_places(overlay, leased, pair)
            if routes:
                yield PathGroup(id=0, paths=routes)


def automatic_pairs(overlay: Overlay) -> Iterator[tuple[str, str]]:
    """Give the pairs of branches whose paths are chosen."""
    described = {frozenset(route_branches(each.paths[0])) for each in overlay.path_groups.values()}
    for one, other in overlay.default_pairs():
        if frozenset((one, other)) not in described:
            yield (one, other) if one < other else (other, one)


def is_usable(overlay: Overlay, leased: Collection[Port], routes: Sequence[str]) -> bool:
    """Tell whether paths lead over ports that still exist, and reach each other."""
    return all(
        all(_exists(overlay, stop) for stop in stops(route))
        and all(
            _is_leased(overlay, leased, a) == _is_leased(overlay, leased, b) for a, b in hops(route)
        )
        for route in routes
    )


def direct_places(
    overlay: Overlay, leased: Collection[Port], pair: tuple[str, str]
) -> tuple[str, ...]:
    """Give the group of two branches for which nothing was chosen."""
    one, other = pair
    ends = product(overlay.branches[one].wan_ports, overlay.branches[other].wan_ports)
    direct = [f"{one}.{a.name}>{other}.{b.name}" for a, b in ends if (a in leased) == (b in leased)]
    transits = len(overlay.branches) - 2
    more = transits * len(direct) if len(overlay.branches) <= _FEW else 0
    return tuple(islice(cycle(direct), min(len(direct) + max(_MORE, more), MAX_PATHS)))


def placed(before: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Put paths into the places of a group.

    Those that it has keep their places. Others come where a path with the same ports at both ends
    was, for then the gateways at the ends change nothing, else anywhere. The group gets longer, and
    is made anew, only if there are more paths than places.
    """
    places: list[str | None] = [None] * max(len(before), len(wanted))
    left = list(dict.fromkeys(wanted))
    for place, route in enumerate(before):
        if route in left:
            places[place] = route
            left.remove(route)
    for route in tuple(left):
        for place, old in enumerate(before):
            if places[place] is None and _ends(old) == _ends(route):
                places[place] = route
                left.remove(route)
                break
    free = (place for place, route in enumerate(places) if route is None)
    fillers = [*left, *islice(cycle(wanted), len(places))]
    for place, route in zip(free, fillers, strict=False):
        places[place] = _repeated(before, wanted, place) if route not in left else route
    return tuple(route for route in places if route is not None)


def _repeated(before: Sequence[str], wanted: Sequence[str], place: int) -> str:
    """Give the path that a place repeats: the one that it had, if that is wanted."""
    if place < len(before) and before[place] in wanted:
        return before[place]
    return wanted[place % len(wanted)]


def _ends(route: str) -> tuple[str, str]:
    passed = route.split(">")
    return passed[0], passed[-1]


def _exists(overlay: Overlay, stop: Stop) -> bool:
    return stop.branch in overlay.branches and stop.port in overlay.branches[stop.branch].wan


def _is_leased(overlay: Overlay, leased: Collection[Port], stop: Stop) -> bool:
    return Port(overlay.branches[stop.branch].gateway, stop.port) in leased
