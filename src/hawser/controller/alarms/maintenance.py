"""Maintenance windows: times in which alarms of some branches are listed, but not sent.

An alarm that is still there when its window ends is sent then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import Maintenance
from hawser.controller.errors import Conflict, Forbidden, Invalid, NotFound
from hawser.spec.validate import Issue

_LONGEST: Final = timedelta(days=31)
_KEPT: Final = timedelta(days=90)
_MOST: Final = 1000
"""Windows that have not ended."""


def windows(session: Session, before: int, limit: int) -> Sequence[Maintenance]:
    """Give windows with lower numbers than one, the newest first."""
    wanted = select(Maintenance).where(Maintenance.number < before)
    return session.scalars(wanted.order_by(Maintenance.number.desc()).limit(limit)).all()


def windows_at(session: Session, now: datetime) -> Sequence[Maintenance]:
    """Give the windows that are open."""
    wanted = select(Maintenance).where(Maintenance.begin <= now, Maintenance.end > now)
    return session.scalars(wanted).all()


def is_silenced(found: Iterable[Maintenance], branches: Collection[str]) -> bool:
    """Tell whether alarms of these branches are silenced by one of these windows."""
    return any(
        each.branches is None or not set(each.branches).isdisjoint(branches) for each in found
    )


def add(
    session: Session,
    who: Principal,
    now: datetime,
    span: tuple[datetime, datetime],
    branches: Collection[str] | None,
    reason: str,
) -> Maintenance:
    """Announce maintenance.

    Args:
        session: of `Database.write`.
        who: the principal.
        now: the time.
        span: when it begins, and when it ends.
        branches: whose alarms are silenced; None for all.
        reason: why.

    Raises:
        Invalid: it ends before it begins, or lasts too long, or has ended.
        Forbidden: a branch is none of the caller's.
        Conflict: there are too many windows.
    """
    begin, end = span
    if end <= max(begin, now):
        raise Invalid([Issue(("end",), "expected a time after the beginning, and after now")])
    if end - begin > _LONGEST:
        raise Invalid([Issue(("end",), f"expected at most {_LONGEST.days} days")])
    _check(who, branches)
    later = select(func.count()).select_from(Maintenance).where(Maintenance.end > now)
    if (session.scalar(later) or 0) >= _MOST:
        raise Conflict(f"there are {_MOST} maintenance windows")
    row = Maintenance(
        number=(session.scalar(select(func.max(Maintenance.number))) or 0) + 1,
        begin=begin,
        end=end,
        branches=None if branches is None else sorted(set(branches)),
        author=str(who),
        reason=reason,
    )
    session.add(row)
    session.flush()
    after = {"begin": begin.isoformat(), "end": end.isoformat(), "branches": row.branches}
    after["reason"] = reason
    audit.record(session, who, now, "maintenance.add", str(row.number), after=after)
    return row


def end(session: Session, who: Principal, now: datetime, number: int) -> None:
    """End a window now; one that has not begun is removed.

    Raises:
        NotFound: there is none of this number.
        Forbidden: it is about branches that are none of the caller's.
        Conflict: it has ended.
    """
    row = session.get(Maintenance, number)
    if row is None:
        raise NotFound(f"there is no maintenance window {number}")
    _check(who, row.branches)
    if row.end <= now:
        raise Conflict(f"maintenance window {number} has ended")
    before = {"begin": row.begin.isoformat(), "end": row.end.isoformat()}
    if row.begin < now:
        row.end = now
    else:
        session.delete(row)
    audit.record(session, who, now, "maintenance.end", str(number), before=before)


def _check(who: Principal, branches: Collection[str] | None) -> None:
    if who.branches is not None and (branches is None or not who.branches.issuperset(branches)):
        raise Forbidden("maintenance of these branches is not yours to announce")


def forget(session: Session, now: datetime) -> None:
    """Remove windows that ended long ago."""
    session.execute(delete(Maintenance).where(Maintenance.end < now - _KEPT))
