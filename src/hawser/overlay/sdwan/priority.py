"""Strict priorities at a WAN port: Type I, Type II by the WAN hops of its path, Type III.

HTB offers the spare rate of the port to the class with the lowest priority number first, so one
class per level is enough. The switch chooses the class of the packets that it sends. All other
packets, such as Type III, are in the last class.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hawser.overlay.config.shaping import class_id
from hawser.overlay.sdwan.group import Group
from hawser.spec.overlay import Paths, Priority, Settings, TrafficType

MAX_HOP_LEVELS = 6
"""Most levels of Type II: HTB has eight in all. Longer paths share the last one."""

AUTOMATIC_HOPS = 2
"""Most hops of paths that are chosen automatically."""


@dataclass(frozen=True)
class Levels:
    """The priority levels of all WAN ports of an SD-WAN, highest first."""

    hops: int
    """Levels of Type II."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the levels, as used in class names."""
        second = [f"II-{hop + 1}" for hop in range(self.hops)] if self.hops > 1 else ["II"]
        return ("I", *second, "III")

    def class_of(self, traffic: TrafficType, wan_hops: int) -> int:
        """Give the HTB class of a subflow, by the type it carries and its path's WAN hops."""
        if traffic is TrafficType.I:
            return class_id(0)
        return class_id(min(wan_hops, self.hops))


def levels(groups: Iterable[Group], settings: Settings) -> Levels:
    """Give one level per path length in hops; one in all if priority ignores hops.

    Paths that are chosen automatically may get a transit later, when ports are shaped already.
    """
    lengths = (len(path.hops) for group in groups for path in group.paths)
    longest = max(lengths, default=1)
    if settings.paths is Paths.AUTOMATIC:
        longest = max(longest, AUTOMATIC_HOPS)
    ignored = settings.priority is Priority.NONE
    return Levels(1 if ignored else min(longest, MAX_HOP_LEVELS))
