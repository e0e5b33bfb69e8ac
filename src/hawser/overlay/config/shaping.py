"""Numbers of traffic classes, which the switch writes into packets and shapers read."""

from __future__ import annotations

FIRST_CLASS = 0x1_0010
"""HTB class of a shaper's first class; the others follow."""


def class_id(position: int) -> int:
    """Give the HTB class of a shaper's class by its position; marked packets name it."""
    return FIRST_CLASS + position
