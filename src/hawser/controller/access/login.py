"""Logging in with a password. A session is a secret that is sent with each request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from hawser.controller.access import audit, password
from hawser.controller.access.own_role import grant_of
from hawser.controller.access.principal import Principal
from hawser.controller.access.secret import digest, new_secret
from hawser.controller.db.database import Database
from hawser.controller.db.tables import LoginFailure, LoginSession, User
from hawser.controller.errors import TooMany, Unauthorized

SESSION = timedelta(hours=12)
_FREE = 5
"""Wrong passwords after which there is a wait."""
_LONGEST_WAIT_S = 300.0
_FORGIVEN = timedelta(minutes=15)
"""Time without a failure after which an address starts anew."""
PREFIX = "hws_"


@dataclass(frozen=True)
class Login:
    """A session that begins."""

    token: str
    expires: datetime
    one_time: bool
    """Whether the password has to be changed first."""


def log_in(database: Database, name: str, given: str, address: str, now: datetime) -> Login:
    """Begin a session.

    Raises:
        Unauthorized: user or password are wrong.
        TooMany: there were too many wrong ones.
    """
    with database.read() as session:
        _wait(session.get(LoginFailure, address), now)
        user = session.get(User, name)
        stored = user.password if user else None
    right = password.verify(stored, given)  # outside of transactions: it takes long
    with database.write() as session:
        login = _begin(session, name, stored, address, now) if right else None
        if login is None:
            _failed(session, name, address, now)
    if login is None:
        raise Unauthorized("user or password are wrong")
    return login


def _begin(
    session: Session, name: str, stored: str | None, address: str, now: datetime
) -> Login | None:
    user = session.get(User, name)
    if user is None or user.password != stored:
        return None  # it was changed meanwhile
    session.execute(delete(LoginSession).where(LoginSession.expires < now))
    token, expires = PREFIX + new_secret(), now + SESSION
    session.add(LoginSession(digest=digest(token), name=name, created=now, expires=expires))
    who = Principal(name, frozenset(), address)
    audit.record(session, who, now, "login", name)
    return Login(token, expires, user.one_time)


def log_out(session: Session, token: str) -> None:
    """End a session."""
    session.execute(delete(LoginSession).where(LoginSession.digest == digest(token)))


def principal(session: Session, token: str, address: str, now: datetime) -> Principal | None:
    """Give the principal of a session; None if there is no such session."""
    found = session.get(LoginSession, digest(token))
    if found is None or found.expires <= now:
        return None
    user = session.get_one(User, found.name)
    grant = grant_of(session, user.role)
    return Principal(
        user.name,
        grant.permissions,
        address,
        one_time=user.one_time,
        branches=grant.branches,
    )


def _wait(failure: LoginFailure | None, now: datetime) -> None:
    if failure is not None and failure.until > now:
        wait = (failure.until - now).total_seconds()
        raise TooMany("too many wrong passwords", wait)


def _failed(session: Session, name: str, address: str, now: datetime) -> None:
    """Count a failure; only those of existing users are logged, or anybody could fill the log."""
    session.execute(delete(LoginFailure).where(LoginFailure.last < now - _FORGIVEN))
    failure = session.get(LoginFailure, address)
    if failure is None:
        failure = LoginFailure(address=address, count=0, last=now, until=now)
        session.add(failure)
    failure.count, failure.last = failure.count + 1, now
    excess = min(failure.count - _FREE, 16)
    if excess >= 0:
        failure.until = now + timedelta(seconds=min(2.0**excess, _LONGEST_WAIT_S))
    if session.get(User, name) is not None:
        audit.record(session, Principal(name, frozenset(), address), now, "login.failed", name)
