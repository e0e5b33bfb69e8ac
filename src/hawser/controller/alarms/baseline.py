"""The round-trip times that paths have when nothing delays them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from hawser.controller.alarms.pathstate import PathState

_HOUR_S: Final = 3600
_HOURS: Final = 24

Lows = Mapping[str, tuple[int, float]]
"""The hour (since 1970) and the value (ms) of the lowest round-trip time, by class and route."""


class Baseline:
    """The lowest round-trip time of each path in the last day, ms.

    A path is known by its class and route: numbers of groups and members may mean another path
    tomorrow. Of paths whose route is not known, as during a roll-out in stages, nothing is kept.
    """

    def __init__(self) -> None:
        self._lows: dict[str, dict[str, dict[int, float]]] = {}
        """The lowest value of each hour, by the measuring branch, and class and route."""

    def restore(self, branch: str, lows: Lows) -> None:
        """Go on with what was kept of a branch."""
        self._lows[branch] = {key: {hour: low} for key, (hour, low) in lows.items()}

    def drop(self, branch: str) -> None:
        """Forget a branch, whose gateway reports to another controller now."""
        self._lows.pop(branch, None)

    def take(self, now: float, paths: Iterable[PathState]) -> None:
        """Take what is measured now, of branches that were restored."""
        hour = int(now // _HOUR_S)
        for path in paths:
            if math.isnan(path.rtt) or not path.up or not path.stops:
                continue
            if (branch := self._lows.get(path.source)) is not None:
                hours = branch.setdefault(_key(path), {})
                hours[hour] = min(hours.get(hour, math.inf), path.rtt)

    def of(self, now: float, path: PathState) -> float:
        """Give the lowest value; NaN where there is none."""
        hours = self._lows.get(path.source, {}).get(_key(path), {})
        return min((low for _, low in _last_day(now, hours)), default=math.nan)

    def lows(self, now: float, branch: str) -> Lows:
        """Give what is to be kept of a branch; forget what is older than a day."""
        known = self._lows.get(branch, {})
        found = {}
        for key, hours in list(known.items()):
            known[key] = dict(_last_day(now, hours))
            if known[key]:
                hour, low = min(known[key].items(), key=lambda each: (each[1], -each[0]))
                found[key] = hour, round(low, 3)
            else:
                del known[key]
        return found


def _last_day(now: float, hours: Mapping[int, float]) -> Iterable[tuple[int, float]]:
    since = int(now // _HOUR_S) - _HOURS
    return ((hour, low) for hour, low in hours.items() if hour > since)


def _key(path: PathState) -> str:
    return f"{path.traffic.value if path.traffic else ''} {path.name}"
