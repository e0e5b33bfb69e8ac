"""Which branches may exchange packets."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def may_talk(access: Mapping[str, Collection[str]], one: str, other: str) -> bool:
    """Tell whether two branches may exchange packets: each that has a list names the other.

    Args:
        access: the branches with which each branch may exchange packets; one without a list: all.
        one: a branch.
        other: another one.
    """
    return other in access.get(one, (other,)) and one in access.get(other, (one,))
