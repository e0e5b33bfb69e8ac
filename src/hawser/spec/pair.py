"""Names of gateways where a branch has two: the second is `b1/2`, the first as the branch, `b1`."""

from __future__ import annotations

from typing import Final

_SECOND: Final = "/2"
"""No name of a branch has a slash."""


def second_of(branch: str) -> str:
    """Give the name of a branch's second gateway."""
    return f"{branch}{_SECOND}"


def branch_of(gateway: str) -> str:
    """Give the branch of a gateway."""
    return gateway.removesuffix(_SECOND)


def is_second(gateway: str) -> bool:
    """Tell whether it is a second gateway."""
    return gateway.endswith(_SECOND)
