"""Logging in with a password, and with a second factor where the user has one.

A session is a secret that is sent with each request.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from hawser.controller.access import audit, failure, password, second_factor
from hawser.controller.access.limit import source_of
from hawser.controller.access.own_role import grant_of
from hawser.controller.access.principal import Principal
from hawser.controller.access.secret import digest, new_secret
from hawser.controller.access.vault import Vault
from hawser.controller.db.database import Database
from hawser.controller.db.tables import LoginSession, User
from hawser.controller.errors import Unauthorized

SESSION = timedelta(hours=12)
PREFIX = "hws_"


@dataclass(frozen=True)
class Login:
    """A session that begins."""

    token: str
    expires: datetime
    one_time: bool
    """Whether the password has to be changed first."""


@dataclass(frozen=True)
class Credentials:
    """What somebody who logs in says."""

    name: str
    password: str
    code: str | None
    """Of the second factor."""
    address: str
    """Where the request comes from."""


def log_in(database: Database, vault: Vault, given: Credentials, now: datetime) -> Login:
    """Begin a session.

    Raises:
        Unauthorized: user or password are wrong, or the code of the second factor is needed.
        TooMany: there were too many wrong ones.
    """
    source = source_of(given.address)
    with database.read() as session:
        failure.wait(session, source, now)
        user = session.get(User, given.name)
        stored = user.password if user and user.subject is None else None
    right = password.verify(stored, given.password)  # outside of transactions: it takes long
    with database.write() as session:
        failure.wait(session, source, now)  # others may have failed meanwhile
        found = _begin(session, vault, given, stored, now) if right else _WRONG
        if found is _WRONG:
            failure.failed(session, given.name, given.address, source, now)
        if found is _WRONG_CODE:  # of somebody who knows the password: wherever it comes from
            counted = failure.codes_of(given.name)
            failure.failed(session, given.name, given.address, counted, now)
    if not isinstance(found, Login):
        raise Unauthorized(found)
    return found


_WRONG = "user or password are wrong"
_WRONG_CODE = "the code of the second factor is wrong, or was used already"
_NO_CODE = "the code of the second factor is needed"


def _begin(
    session: Session, vault: Vault, given: Credentials, stored: str | None, now: datetime
) -> Login | str:
    """Begin a session, or say why not."""
    user = session.get(User, given.name)
    if user is None or user.password != stored:
        return _WRONG  # it was changed meanwhile
    if user.totp_active:
        if given.code is None:
            return _NO_CODE
        failure.wait(session, failure.codes_of(given.name), now)
        if not second_factor.verify(vault, user, now, given.code):
            return _WRONG_CODE
    return begin_session(session, user, given.address, now)


def begin_session(session: Session, user: User, address: str, now: datetime) -> Login:
    """Begin a session of a user who has been authenticated."""
    session.execute(delete(LoginSession).where(LoginSession.expires < now))
    token, expires = PREFIX + new_secret(), now + SESSION
    session.add(LoginSession(digest=digest(token), name=user.name, created=now, expires=expires))
    who = Principal(user.name, frozenset(), address)
    audit.record(session, who, now, "login", user.name)
    return Login(token, expires, user.one_time)


def log_out(session: Session, token: str) -> None:
    """End a session."""
    session.execute(delete(LoginSession).where(LoginSession.digest == digest(token)))


def end_sessions(session: Session, who: Principal, now: datetime) -> None:
    """End all sessions of the caller."""
    session.execute(delete(LoginSession).where(LoginSession.name == who.name))
    audit.record(session, who, now, "logout", who.name)


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
