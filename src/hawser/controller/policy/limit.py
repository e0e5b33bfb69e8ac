"""What a principal may change that is limited to some branches: their lines, and no more.

Whatever else it changed would reach beyond: a branch's number and prefix are in everybody's tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hawser.controller.access.principal import Principal
from hawser.controller.errors import Forbidden
from hawser.controller.policy.difference import changes

Json = Any
_OWN: Final = ("wan", "lan")
"""Fields of a branch that concern nobody else."""


def permit(who: Principal, old: Json, new: Json) -> None:
    """Check that a principal may change one document to the other.

    Raises:
        Forbidden: something differs that does not belong to its branches.
    """
    if who.branches is None:
        return
    allowed = tuple(_places(who.branches, old))
    for change in changes(old, new):
        if not change.path.startswith(allowed):
            names = ", ".join(sorted(who.branches))
            raise Forbidden(f"{change.path}: you may change ports of {names} only")


def _places(branches: frozenset[str], document: Json) -> Iterator[str]:
    """Give beginnings of JSON pointers. Names in them have none of the characters `.`, `/`, `~`."""
    for name, branch in document["overlay"]["branches"].items():
        if name in branches:
            yield f"/ports/{branch['gateway']}."
            yield from (f"/overlay/branches/{name}/{field}" for field in _OWN)
            if name in document.get("pairs", ()):
                yield f"/ports/{document['pairs'][name]['gateway']}."
                yield from (f"/pairs/{name}/{field}" for field in _OWN)
