"""Lowest round-trip times in the database, so that a restart does not take a slow path for normal.

Each branch is one row, written by the controller that its gateway reports to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hawser.controller.alarms.baseline import Lows
from hawser.controller.db.tables import LowestRtt

_KEPT: Final = timedelta(days=2)


def lows_of(session: Session, branches: Collection[str]) -> dict[str, Lows]:
    """Give what is kept of branches; nothing of those that are not known."""
    rows = session.scalars(select(LowestRtt).where(LowestRtt.branch.in_(branches)))
    found: dict[str, Lows] = {branch: {} for branch in branches}
    for row in rows:
        found[row.branch] = {key: (int(hour), float(low)) for key, (hour, low) in row.lows.items()}
    return found


def keep(session: Session, now: datetime, lows: Mapping[str, Lows]) -> None:
    """Keep what is measured of branches, in place of what was kept of them."""
    for branch, found in lows.items():
        session.merge(LowestRtt(branch=branch, time=now, lows=dict(found)))


def forget(session: Session, now: datetime) -> None:
    """Remove what was kept of branches that have not reported for days."""
    session.execute(delete(LowestRtt).where(LowestRtt.time < now - _KEPT))
