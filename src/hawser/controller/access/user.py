"""Users."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.own_role import grant_of
from hawser.controller.access.password import hash_password, one_time_password
from hawser.controller.access.principal import Principal
from hawser.controller.access.role import Role
from hawser.controller.db.tables import LoginSession, User
from hawser.controller.errors import Conflict, NotFound

NAME: Final = r"^[a-z][a-z0-9._@-]{0,63}$"
"""Regular expression of a user's name."""


def users(session: Session) -> Sequence[User]:
    """Give all users by name."""
    return session.scalars(select(User).order_by(User.name)).all()


def add_user(
    session: Session,
    who: Principal,
    now: datetime,
    name: str,
    role: str,
    password: str | None = None,
) -> str:
    """Add a user, and give its password, which it has to change at first unless it was given.

    Raises:
        Conflict: there is one of that name.
        Invalid: the password is too short, or there is no such role.
    """
    grant_of(session, role)
    if session.get(User, name) is not None:
        raise Conflict(f"there is a user {name}")
    chosen = password or one_time_password()
    session.add(
        User(
            name=name,
            password=hash_password(chosen),
            one_time=password is None,
            role=role,
            created=now,
        )
    )
    session.flush()
    audit.record(session, who, now, "user.add", name, after={"role": role})
    return chosen


def set_role(session: Session, who: Principal, now: datetime, name: str, role: str) -> None:
    """Give a user another role.

    Raises:
        NotFound: there is no such user.
        Invalid: there is no such role.
        Conflict: nobody could manage users afterwards.
    """
    grant_of(session, role)
    user = _user(session, name)
    before, user.role = user.role, role
    session.flush()
    _somebody_manages(session)
    change = {"before": {"role": before}, "after": {"role": role}}
    audit.record(session, who, now, "user.role", name, **change)


def stored_password(session: Session, who: Principal) -> str | None:
    """Give the hash that the caller's present password has to match; None if it was one-time.

    Raises:
        Conflict: the caller has no password here.
    """
    user = _user(session, who.name)
    if user.subject is not None:
        raise Conflict("you log in at the OpenID provider, and have no password here")
    return None if user.one_time else user.password


def set_password(session: Session, who: Principal, now: datetime, password: str) -> None:
    """Change the caller's password and end its sessions.

    Raises:
        Invalid: it is too short.
    """
    user = _user(session, who.name)
    user.password, user.one_time = hash_password(password), False
    session.execute(delete(LoginSession).where(LoginSession.name == who.name))
    audit.record(session, who, now, "user.password", who.name)


def reset_password(session: Session, who: Principal, now: datetime, name: str) -> str:
    """Give a user a password to be changed at the next login, and end its sessions.

    Raises:
        NotFound: there is no such user.
        Conflict: it logs in elsewhere.
    """
    user, chosen = _user(session, name), one_time_password()
    if user.subject is not None:
        raise Conflict(f"{name} logs in at the OpenID provider")
    user.password, user.one_time = hash_password(chosen), True
    session.execute(delete(LoginSession).where(LoginSession.name == name))
    audit.record(session, who, now, "user.reset", name)
    return chosen


def remove_user(session: Session, who: Principal, now: datetime, name: str) -> None:
    """Remove a user with its sessions and keys.

    Raises:
        NotFound: there is no such user.
        Conflict: nobody could manage users afterwards.
    """
    user = _user(session, name)
    session.delete(user)
    session.flush()
    _somebody_manages(session)
    audit.record(session, who, now, "user.remove", name, before={"role": user.role})


def _user(session: Session, name: str) -> User:
    user = session.get(User, name)
    if user is None:
        raise NotFound(f"there is no user {name}")
    return user


def _somebody_manages(session: Session) -> None:
    # One who can log in without any provider.
    local = (User.role == Role.ADMIN.value, User.subject.is_(None))
    admins = select(func.count()).select_from(User).where(*local)
    if not session.scalar(admins):
        raise Conflict("this is the last admin")
