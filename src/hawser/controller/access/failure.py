"""Wrong passwords and codes: who has made several waits, longer each time."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.db.tables import LoginFailure, User
from hawser.controller.errors import TooMany

_FREE = 5
"""Failures after which there is a wait."""
_LONGEST_WAIT_S = 300.0
_FORGIVEN = timedelta(minutes=15)
"""Time without a failure after which all are forgotten."""


def codes_of(name: str) -> str:
    """Give under what wrong codes of a user are counted: wherever they come from."""
    return f"user:{name}"


def wait(session: Session, counted: str, now: datetime) -> None:
    """Refuse who has to wait.

    Raises:
        TooMany: so it is.
    """
    found = session.get(LoginFailure, counted)
    if found is not None and found.until > now:
        raise TooMany("too many wrong passwords or codes", (found.until - now).total_seconds())


def failed(session: Session, name: str, address: str, counted: str, now: datetime) -> None:
    """Count a failure under an address or a user.

    Only those of existing users are logged, or anybody could fill the log.
    """
    session.execute(delete(LoginFailure).where(LoginFailure.last < now - _FORGIVEN))
    failure = session.get(LoginFailure, counted)
    if failure is None:
        failure = LoginFailure(address=counted, count=0, last=now, until=now)
        session.add(failure)
    failure.count, failure.last = failure.count + 1, now
    excess = min(failure.count - _FREE, 16)
    if excess >= 0:
        failure.until = now + timedelta(seconds=min(2.0**excess, _LONGEST_WAIT_S))
    if session.get(User, name) is not None:
        audit.record(session, Principal(name, frozenset(), address), now, "login.failed", name)
