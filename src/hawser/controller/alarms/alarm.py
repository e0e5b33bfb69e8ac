"""Alarms in the database: raised, changed, acknowledged, cleared, listed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.alarms.condition import Condition, Kind, Level, is_at_least
from hawser.controller.alarms.dampening import Decision, Open
from hawser.controller.alarms.delivery import Event, enqueue
from hawser.controller.alarms.maintenance import is_silenced, windows_at
from hawser.controller.db.tables import Alarm, Receiver
from hawser.controller.errors import Conflict, NotFound

_HOUR: Final = timedelta(hours=1)
_KEPT: Final = timedelta(days=90)
"""How long cleared alarms are kept."""


def open_alarms(session: Session) -> Sequence[Alarm]:
    """Give all alarms that are not cleared."""
    return session.scalars(
        select(Alarm).where(Alarm.cleared.is_(None)).order_by(Alarm.number)
    ).all()


def opened(row: Alarm) -> Open:
    """Give what dampening has to know of an alarm."""
    return Open(
        number=row.number,
        key=row.key,
        kind=Kind(row.kind),
        level=Level(row.level),
        branches=tuple(row.branches),
        affected=row.affected,
        flaps=row.flaps,
    )


def alarms(session: Session, before: int, limit: int, *, cleared: bool) -> Sequence[Alarm]:
    """Give alarms with lower numbers than one, the newest first.

    Args:
        session: of the database.
        before: the number.
        limit: at most so many.
        cleared: whether cleared ones count too.
    """
    wanted = select(Alarm).where(Alarm.number < before)
    if not cleared:
        wanted = wanted.where(Alarm.cleared.is_(None))
    return session.scalars(wanted.order_by(Alarm.number.desc()).limit(limit)).all()


def apply(session: Session, now: datetime, decision: Decision) -> None:
    """Do what was decided, unless another controller has done it, and queue the messages.

    Args:
        session: of `Database.write`.
        now: the time.
        decision: what to do.
    """
    known = {row.key: row for row in open_alarms(session)}
    for condition in decision.raised:
        if condition.key not in known:
            known[condition.key] = _raise(session, now, condition)
    for found, condition in decision.changed:
        if (row := known.get(found.key)) is not None and row.number == found.number:
            _change(row, condition)
    for found in decision.cleared:
        row = known.get(found.key)
        if row is not None and row.number == found.number:
            row.cleared = now
            _tell_cleared(session, now, known.pop(found.key))
    session.flush()
    tell_raised(session, now)


def _raise(session: Session, now: datetime, found: Condition) -> Alarm:
    flaps = select(func.count()).where(Alarm.key == found.key, Alarm.cleared > now - _HOUR)
    row = Alarm(
        number=(session.scalar(select(func.max(Alarm.number))) or 0) + 1,
        key=found.key,
        kind=found.kind.value,
        level=found.level.value,
        group=found.group,
        branches=list(found.branches),
        detail=found.detail,
        figures=dict(found.figures),
        affected=found.affected,
        raised=now,
        flaps=session.scalar(flaps) or 0,
    )
    session.add(row)
    session.flush()
    return row


def _change(row: Alarm, condition: Condition) -> None:
    """Follow a condition; whoever has acknowledged the lower level has not seen a higher one."""
    if not is_at_least(Level(row.level), condition.level):
        row.acknowledged = row.acknowledged_by = row.note = None
    row.level, row.detail = condition.level.value, condition.detail
    row.affected, row.figures = condition.affected, dict(condition.figures)


def is_untold(row: Alarm) -> bool:
    """Tell whether nobody was told of an open alarm, or not of its level."""
    told = row.notified_level
    return told is None or not is_at_least(Level(told), Level(row.level))


def tell_raised(session: Session, now: datetime) -> None:
    """Queue messages for alarms of which nobody was told, unless they are silenced."""
    windows = windows_at(session, now)
    for row in open_alarms(session):
        if not is_untold(row) or is_silenced(windows, row.branches):
            continue
        event = Event.RAISED if row.notified_level is None else Event.ESCALATED
        for receiver in session.scalars(select(Receiver)):
            if is_at_least(Level(row.level), Level(receiver.least)):
                enqueue(session, now, receiver, row.group, event_of(row, event))
        row.notified, row.notified_level = row.notified or now, row.level
    session.flush()


def _tell_cleared(session: Session, now: datetime, row: Alarm) -> None:
    """Queue messages for those who were told that it was raised."""
    if row.notified is None or row.notified_level is None:
        return
    for receiver in session.scalars(select(Receiver)):
        told = is_at_least(Level(row.notified_level), Level(receiver.least))
        if told and receiver.created <= row.notified:
            enqueue(session, now, receiver, row.group, event_of(row, Event.CLEARED))


def event_of(row: Alarm, event: Event) -> dict[str, object]:
    """Give what receivers are told, as JSON has it."""
    return {
        "event": event.value,
        "number": row.number,
        "kind": row.kind,
        "level": row.level,
        "group": row.group,
        "branches": row.branches,
        "detail": row.detail,
        "figures": row.figures,
        "raised": row.raised.isoformat(timespec="seconds"),
        "cleared": row.cleared.isoformat(timespec="seconds") if row.cleared else None,
    }


def acknowledge(session: Session, who: Principal, now: datetime, number: int, note: str) -> Alarm:
    """Note that somebody takes care of an alarm.

    Raises:
        NotFound: there is none of this number, or it is about other branches than the caller's.
        Conflict: it is cleared, or somebody has acknowledged it.
    """
    row = session.get(Alarm, number)
    if row is None or not is_visible(who, row):
        raise NotFound(f"there is no alarm {number}")
    if row.cleared is not None:
        raise Conflict(f"alarm {number} is cleared")
    if row.acknowledged is not None:
        raise Conflict(f"{row.acknowledged_by} has acknowledged alarm {number}")
    row.acknowledged, row.acknowledged_by, row.note = now, str(who), note
    session.flush()
    after = {"key": row.key, "note": note}
    audit.record(session, who, now, "alarm.acknowledge", str(number), after=after)
    return row


def is_visible(who: Principal, row: Alarm) -> bool:
    """Tell whether an alarm concerns branches of a principal."""
    return who.branches is None or any(map(who.has, row.branches))


def forget(session: Session, now: datetime) -> None:
    """Remove alarms that were cleared long ago."""
    session.execute(delete(Alarm).where(Alarm.cleared < now - _KEPT))
