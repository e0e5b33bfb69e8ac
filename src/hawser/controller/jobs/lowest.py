"""Keeping the lowest round-trip times of paths over restarts, and for another controller."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Final

from hawser.controller.alarms import lowest
from hawser.controller.alarms.baseline import Baseline, Lows
from hawser.controller.db.database import Database

_KEEP_EVERY: Final = timedelta(minutes=1)


class Lowest:
    """Has a baseline of the branches whose gateways report to this controller."""

    def __init__(self, database: Database) -> None:
        self.baseline = Baseline()
        self._database = database
        self._kept: dict[str, Lows] = {}
        """What the database has, by branch."""
        self._looked: datetime | None = None

    def follow(self, now: datetime, reporting: AbstractSet[str]) -> None:
        """Restore branches that begin to report, drop those that end, and keep what has changed."""
        gone = self._kept.keys() - reporting
        if self._looked is None or now - self._looked >= _KEEP_EVERY:
            self._looked = now
            self._keep(now, self._kept.keys())
        else:
            self._keep(now, gone)
        for branch in gone:
            self.baseline.drop(branch)
            del self._kept[branch]
        if new := reporting - self._kept.keys():
            with self._database.read() as session:
                found = lowest.lows_of(session, new)
            for branch, lows in found.items():
                self.baseline.restore(branch, lows)
            self._kept.update(found)

    def _keep(self, now: datetime, branches: AbstractSet[str]) -> None:
        lows = {branch: self.baseline.lows(now.timestamp(), branch) for branch in branches}
        changed = {branch: found for branch, found in lows.items() if found != self._kept[branch]}
        if changed:
            with self._database.note() as session:
                lowest.keep(session, now, changed)
            self._kept.update(changed)
