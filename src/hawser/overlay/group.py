"""Path groups of every pair of branches, the default ones put in."""

from __future__ import annotations

from itertools import combinations

from hawser.spec.overlay import Branch, Overlay

Path = tuple[str, str]
"""A member path as its two WAN ports, `node.port`."""

Groups = dict[tuple[str, str], list[list[Path]]]
"""Branch names, lower id first -> groups in order of number -> member paths in that direction."""


def groups(overlay: Overlay) -> Groups:
    """Give the groups of every pair of branches: those described, else one of all port pairs."""
    given = _given(overlay)
    by_id = sorted(overlay.branches, key=lambda name: overlay.branches[name].id)
    return {
        pair: given.get(pair) or [_every(*(overlay.branches[name] for name in pair))]
        for pair in combinations(by_id, 2)
    }


def _given(overlay: Overlay) -> Groups:
    result: Groups = {}
    for group in overlay.path_groups.values():
        routes = [_ordered(overlay, route) for route in group.paths]
        paths = [(_port(overlay, first), _port(overlay, second)) for first, second in routes]
        pair = (routes[0][0].partition(".")[0], routes[0][1].partition(".")[0])
        result.setdefault(pair, []).append(paths)
    return result


def _ordered(overlay: Overlay, route: str) -> tuple[str, str]:
    """Split a route of one WAN hop, the branch with the lower id first."""
    first, second = sorted(
        route.split(">"), key=lambda hop: overlay.branches[hop.partition(".")[0]].id
    )
    return first, second


def _port(overlay: Overlay, hop: str) -> str:
    branch, _, port = hop.partition(".")
    return f"{overlay.branches[branch].gateway}.{port}"


def _every(first: Branch, second: Branch) -> list[Path]:
    return [
        (f"{first.gateway}.{a}", f"{second.gateway}.{b}") for a in first.wan for b in second.wan
    ]
