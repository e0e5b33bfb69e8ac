"""Which alarms have one cause, so that they go into one message. Pure.

A WAN port that no path passes any more is such a cause, and so is a branch whose ports are all like
that: the failure of one line of a branch with fifty peers is a hundred alarms, but one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hawser.controller.alarms.pathstate import PathState
from hawser.spec.route import Stop

_LEAST: Final = 3
"""A port with fewer reported paths tells nothing of itself."""


class Grouping:
    """Finds what several paths that are down have in common."""

    def __init__(self, paths: Iterable[PathState]) -> None:
        """Look at all reported paths at once."""
        total: dict[Stop, int] = {}
        down: dict[Stop, int] = {}
        for path in paths:
            for stop in path.stops:
                total[stop] = total.get(stop, 0) + 1
                if not path.up:
                    down[stop] = down.get(stop, 0) + 1
        self._ports = {
            stop for stop, count in total.items() if count >= _LEAST and down.get(stop) == count
        }
        ports: dict[str, set[Stop]] = {}
        for stop in total:
            ports.setdefault(stop.branch, set()).add(stop)
        self._branches = {branch for branch, all_ in ports.items() if all_ <= self._ports}

    def of(self, source: str, peer: str, affected: Sequence[PathState]) -> str:
        """Give the group of an alarm about some paths of two branches."""
        branches = [each for each in (source, peer) if each in self._branches]
        if len(branches) == 1:
            return branches[0]
        common = set.intersection(*({*path.stops} for path in affected)) if affected else set()
        ports = sorted(common & self._ports)
        if not branches and ports:
            return f"{ports[0].branch}.{ports[0].port}"
        return f"{min(source, peer)}-{max(source, peer)}"
