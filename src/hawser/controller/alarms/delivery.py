"""Messages that wait for a receiver, in the database: gathered, claimed, delivered or given up.

Whoever claims a message moves its `due` so far ahead that no other controller takes it meanwhile,
and holds a lock of the database while it sends (`Database.exclusive`). What is not delivered is due
again after 30 s, then twice as long each time up to an hour, for a day.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from hawser.controller.db.tables import Delivery, Receiver

_GATHER: Final = timedelta(seconds=5)
"""How long a message waits for other alarms of its group."""
_FIRST: Final = timedelta(seconds=30)
"""Longer than an attempt to send may take."""
_LONGEST: Final = timedelta(hours=1)
_GIVE_UP: Final = timedelta(days=1)
_EVENTS: Final = 50
"""Most events of a message; further ones are counted."""
_WAITING: Final = 500
"""Most messages that wait for a receiver; then the oldest is given up."""
_KEPT: Final = timedelta(days=7)
"""How long messages are kept that were delivered or given up."""


class Event(StrEnum):
    """What has happened to an alarm."""

    RAISED = "raised"
    ESCALATED = "escalated"
    CLEARED = "cleared"
    TEST = "test"


def enqueue(
    session: Session,
    now: datetime,
    receiver: Receiver,
    group: str,
    event: dict[str, object],
    gather: timedelta = _GATHER,
) -> None:
    """Add an event to the message to a receiver that gathers those of its group, or to a new one.

    Args:
        session: of `Database.write`.
        now: the time.
        receiver: to whom.
        group: of the alarm.
        event: what to tell, as JSON has it.
        gather: how long a new message waits for others.
    """
    pending = _pending(session, receiver.name)
    for row in reversed(pending):
        if row.group == group and row.attempts == 0 and row.due > now:
            if len(row.events) < _EVENTS:
                row.events = [*row.events, event]
            else:
                row.omitted += 1
            return
    for row in pending[: max(0, len(pending) - _WAITING + 1)]:
        _abandon(row, receiver, now, "too many messages wait")
    made = Delivery(
        number=(session.scalar(select(func.max(Delivery.number))) or 0) + 1,
        id=secrets.token_hex(16),
        receiver=receiver.name,
        group=group,
        events=[event],
        omitted=0,
        created=now,
        due=now + gather,
        attempts=0,
    )
    session.add(made)
    session.flush()


def _pending(session: Session, receiver: str) -> Sequence[Delivery]:
    wanted = select(Delivery).where(
        Delivery.receiver == receiver,
        Delivery.delivered.is_(None),
        Delivery.abandoned.is_(None),
    )
    return session.scalars(wanted.order_by(Delivery.number)).all()


def receivers_due(session: Session, now: datetime) -> Sequence[str]:
    """Give the receivers for whom a message is due."""
    wanted = select(Delivery.receiver).where(
        Delivery.delivered.is_(None), Delivery.abandoned.is_(None), Delivery.due <= now
    )
    return session.scalars(wanted.distinct().order_by(Delivery.receiver)).all()


def claim(session: Session, now: datetime, receiver: str) -> Delivery | None:
    """Take the oldest message that is due, but none before an older one of the same group.

    Args:
        session: of `Database.write`.
        now: the time.
        receiver: whose.
    """
    waiting: set[str] = set()
    for row in _pending(session, receiver):
        if row.due <= now and row.group not in waiting:
            row.attempts += 1
            row.due = now + min(_FIRST * 2 ** min(row.attempts - 1, 20), _LONGEST)
            session.flush()
            return row
        waiting.add(row.group)
    return None


def is_waiting(session: Session, number: int, attempts: int) -> bool:
    """Tell whether a message is as it was claimed: nobody has delivered or claimed it since."""
    row = session.get(Delivery, number)
    return row is not None and row.delivered is None and row.attempts == attempts


def delivered(session: Session, now: datetime, numbers: Sequence[int]) -> None:
    """Note that messages were delivered."""
    done = update(Delivery).where(Delivery.number.in_(numbers))
    session.execute(done.values(delivered=now, error=None))


def failed(session: Session, now: datetime, number: int, error: str) -> None:
    """Note that an attempt has failed; after a day of them the message is given up."""
    row = session.get(Delivery, number)
    if row is None:
        return
    row.error = error[:200]
    receiver = session.get(Receiver, row.receiver)
    if now - row.created >= _GIVE_UP and receiver is not None:
        _abandon(row, receiver, now, row.error)


def _abandon(row: Delivery, receiver: Receiver, now: datetime, error: str) -> None:
    row.abandoned, row.error = now, error
    receiver.abandoned += 1


def queue_of(session: Session, receiver: str) -> dict[str, Any]:
    """Give how many messages wait for a receiver, the last error, and when one was delivered."""
    pending = _pending(session, receiver)
    last = select(func.max(Delivery.number)).where(
        Delivery.receiver == receiver, Delivery.error.is_not(None)
    )
    failed_last = session.get(Delivery, session.scalar(last) or 0)
    newest = (
        select(Delivery.delivered)
        .where(Delivery.receiver == receiver, Delivery.delivered.is_not(None))
        .order_by(Delivery.delivered.desc())
        .limit(1)
    )
    return {
        "waiting": len(pending),
        "error": failed_last.error if failed_last else None,
        "delivered": session.scalar(newest),
    }


def forget(session: Session, now: datetime) -> None:
    """Remove messages that were delivered or given up long ago."""
    for column in (Delivery.delivered, Delivery.abandoned):
        session.execute(delete(Delivery).where(column < now - _KEPT))
