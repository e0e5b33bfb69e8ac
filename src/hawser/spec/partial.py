"""The sound part of a scenario, so that its mistakes too are told in the first answer.

A measurement, an event or a path group that is no model is left out and the rest is checked. What
others refer to (nodes, links, branches) is never left out: that would make mistakes of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from hawser.spec.explain import Loc
from hawser.spec.tree import Table
from hawser.spec.validate import Issue


def sound(tree: Table, issues: Iterable[Issue]) -> Table | None:
    """Give a scenario's tree without what these issues are about, None where too little is left."""
    for loc in {_part(issue.loc) for issue in issues}:
        if not loc:
            return None
        tree = _without(tree, loc)
    return tree


def _part(loc: Loc) -> Loc:
    """Give the part that a field belongs to, nothing where that cannot be missed."""
    if loc[0] == "events":
        return loc[:1]
    if loc[0] == "measurements" and len(loc) > 1:
        return loc[:2]
    if loc[:2] == ("overlay", "path_groups"):
        return loc[:3]
    return ()


def _without(tree: Table, loc: Loc) -> Table:
    key, rest = str(loc[0]), loc[1:]
    below = tree.get(key)
    if not rest:
        return tree.without(key)
    return tree.put(key, _without(below, rest)) if isinstance(below, Table) else tree
