"""The audit log: who did what, from where, with the state before and after.

Entries form a hash chain (`chain`). Whoever keeps the newest hash somewhere else can tell later
whether entries before it were changed, and whether entries were removed from the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from hawser.controller.access.chain import ORIGIN, Checked, check, hash_of
from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import AuditEntry, Json

_FIELDS: Final = tuple(column.name for column in AuditEntry.__table__.columns)


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
        previous=newest.hash if newest else ORIGIN,
    )
    entry.hash = hash_of(plain(entry))
    session.add(entry)
    session.flush()


def last(session: Session) -> AuditEntry | None:
    """Give the newest entry."""
    return session.scalars(select(AuditEntry).order_by(AuditEntry.number.desc()).limit(1)).first()


def entries(session: Session, after: int, limit: int) -> Sequence[AuditEntry]:
    """Give entries behind a number, in order."""
    wanted = select(AuditEntry).where(AuditEntry.number > after)
    return session.scalars(wanted.order_by(AuditEntry.number).limit(limit)).all()


def checked(session: Session) -> Checked:
    """Check the whole log."""
    return check(plain(each) for each in all_entries(session))


def all_entries(session: Session) -> Iterable[AuditEntry]:
    """Give all entries in order, a few at a time."""
    wanted = select(AuditEntry).order_by(AuditEntry.number)
    return session.scalars(wanted.execution_options(yield_per=500))


def plain(entry: AuditEntry) -> dict[str, Any]:
    """Give an entry as JSON has it. Its hash is that of this text."""
    values = {name: getattr(entry, name) for name in _FIELDS}
    return values | {"time": entry.time.isoformat(timespec="milliseconds")}
