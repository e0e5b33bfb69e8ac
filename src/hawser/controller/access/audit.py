"""The audit log: who did what, from where, with the state before and after.

Each entry holds the SHA-256 of itself and of the entry before, so that none can be changed or
removed without all later hashes changing. Whoever keeps the newest hash somewhere else can tell
whether that happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256

from sqlalchemy import select
from sqlalchemy.orm import Session

from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import AuditEntry, Json

_ORIGIN = "0" * 64
"""Hash before the first entry."""


def record(
    session: Session,
    who: Principal,
    now: datetime,
    action: str,
    target: str,
    *,
    before: Json = None,
    after: Json = None,
) -> None:
    """Add an entry, in the transaction of what it is about (`Database.write`)."""
    newest = last(session)
    entry = AuditEntry(
        number=newest.number + 1 if newest else 1,
        time=now.replace(microsecond=now.microsecond // 1000 * 1000),
        actor=str(who),
        address=who.address,
        action=action,
        target=target,
        before=before,
        after=after,
        previous=newest.hash if newest else _ORIGIN,
    )
    entry.hash = _hash(entry)
    session.add(entry)
    session.flush()


def last(session: Session) -> AuditEntry | None:
    """Give the newest entry."""
    return session.scalars(select(AuditEntry).order_by(AuditEntry.number.desc()).limit(1)).first()


def entries(session: Session, after: int, limit: int) -> Sequence[AuditEntry]:
    """Give entries behind a number, in order."""
    wanted = select(AuditEntry).where(AuditEntry.number > after)
    return session.scalars(wanted.order_by(AuditEntry.number).limit(limit)).all()


def broken(found: Iterable[AuditEntry]) -> int | None:
    """Give the number of the first entry that is not as it was written; None where all are."""
    previous = _ORIGIN
    for number, entry in enumerate(found, 1):
        if entry.number != number or entry.previous != previous or entry.hash != _hash(entry):
            return number
        previous = entry.hash
    return None


def all_entries(session: Session) -> Iterable[AuditEntry]:
    """Give all entries in order, a few at a time."""
    wanted = select(AuditEntry).order_by(AuditEntry.number)
    return session.scalars(wanted.execution_options(yield_per=500))


def _hash(entry: AuditEntry) -> str:
    body = {
        "number": entry.number,
        "time": entry.time.isoformat(timespec="milliseconds"),
        "actor": entry.actor,
        "address": entry.address,
        "action": entry.action,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
        "previous": entry.previous,
    }
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()
