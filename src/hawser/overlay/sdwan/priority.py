"""Strict priorities at a WAN port: Type I, Type II by the WAN hops of its path, Type III.

HTB offers what is left of the port's rate to the class with the lowest number first, so one class
a level is enough. The switch chooses the class of what it sends; what it does not know, such as
Type III, is in the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hawser.overlay.config.shaping import class_id
from hawser.overlay.sdwan.group import Group
from hawser.spec.overlay import Priority, TrafficType

MAX_HOP_LEVELS = 6
"""Levels of Type II: HTB knows eight in all. Longer paths share the last one."""


@dataclass(frozen=True)
class Levels:
    """The levels of all WAN ports of an SD-WAN, the most urgent first."""

    hops: int
    """Levels of Type II."""

    @property
    def names(self) -> tuple[str, ...]:
        """What each level is called in the names of classes."""
        second = [f"II-{hop + 1}" for hop in range(self.hops)] if self.hops > 1 else ["II"]
        return ("I", *second, "III")

    def class_of(self, traffic: TrafficType, wan_hops: int) -> int:
        """Give the HTB class of a subflow, by the type it carries and its path's WAN hops."""
        if traffic is TrafficType.I:
            return class_id(0)
        return class_id(min(wan_hops, self.hops))


def levels(groups: Iterable[Group], priority: Priority) -> Levels:
    """Give as many levels as there are lengths of paths; one where hops do not count."""
    lengths = (len(path.hops) for group in groups for path in group.paths)
    longest = max(lengths, default=1)
    return Levels(1 if priority is Priority.NONE else min(longest, MAX_HOP_LEVELS))
