"""The second factor: time-based one-time passwords (RFC 6238) of an authenticator.

A code is taken once: it and older ones are refused afterwards (section 5.2). The secret is sealed.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor import InvalidToken
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from sqlalchemy import delete
from sqlalchemy.orm import Session

from hawser.controller.access import audit, failure
from hawser.controller.access.principal import Principal
from hawser.controller.access.vault import Vault
from hawser.controller.db.tables import LoginSession, User
from hawser.controller.errors import Conflict, NotFound

_STEP_S: Final = 30
_DIGITS: Final = 6
_SECRET: Final = 20
"""Bytes, as many as SHA-1 gives (RFC 4226 section 4 recommends 160 bits)."""
_SKEW: Final = (0, -1, 1)
"""Time steps beside the present one that are taken: clocks differ (RFC 6238 section 5.2)."""


def begin(session: Session, vault: Vault, who: Principal) -> str:
    """Give the `otpauth` URI of a new secret. It is not asked for before `confirm`.

    Raises:
        Conflict: the caller has a second factor, or no password here.
    """
    user = _user(session, who.name)
    if user.totp_active:
        raise Conflict("you have a second factor; remove it first")
    if user.subject is not None:
        raise Conflict("the OpenID provider asks for your second factor")
    secret = secrets.token_bytes(_SECRET)
    user.totp, user.totp_step = vault.seal(_name(user), secret), None
    return _totp(secret).get_provisioning_uri(user.name, "Hawser")


def confirm(session: Session, vault: Vault, who: Principal, now: datetime, code: str) -> bool:
    """Ask for codes at logins from now on; the caller's sessions end. False if the code is wrong.

    Raises:
        Conflict: none was begun.
        TooMany: there were too many wrong codes.
    """
    user = _user(session, who.name)
    if user.totp is None or user.totp_active:
        raise Conflict("no second factor was begun")
    if not _take(session, vault, user, who, now, code):
        return False
    user.totp_active = True
    session.execute(delete(LoginSession).where(LoginSession.name == user.name))
    audit.record(session, who, now, "user.factor.add", user.name)
    return True


def remove(session: Session, vault: Vault, who: Principal, now: datetime, code: str) -> bool:
    """Remove the caller's second factor. False if the code is wrong.

    Raises:
        Conflict: there is none.
        TooMany: there were too many wrong codes.
    """
    user = _user(session, who.name)
    if not user.totp_active:
        raise Conflict("you have no second factor")
    if not _take(session, vault, user, who, now, code):
        return False
    _forget(user)
    audit.record(session, who, now, "user.factor.remove", user.name)
    return True


def reset(session: Session, who: Principal, now: datetime, name: str) -> None:
    """Remove the second factor of a user who has lost it.

    Raises:
        NotFound: there is no such user.
    """
    user = _user(session, name)
    before = {"factor": user.totp_active}
    _forget(user)
    audit.record(session, who, now, "user.factor.reset", name, before=before)


def verify(vault: Vault, user: User, now: datetime, code: str) -> bool:
    """Tell whether a code is right, and take it: it will not be right again."""
    if user.totp is None or len(code) != _DIGITS or not (code.isascii() and code.isdecimal()):
        return False
    totp, step = _totp(vault.unseal(_name(user), user.totp)), int(now.timestamp()) // _STEP_S
    for skew in _SKEW:
        if _is_code(totp, step + skew, code):
            if user.totp_step is not None and step + skew <= user.totp_step:
                return False
            user.totp_step = step + skew
            return True
    return False


def _is_code(totp: TOTP, step: int, code: str) -> bool:
    try:
        totp.verify(code.encode(), step * _STEP_S)
    except InvalidToken:
        return False
    return True


def _take(
    session: Session, vault: Vault, user: User, who: Principal, now: datetime, code: str
) -> bool:
    """Tell whether a code is right; one that is not counts, as at a login."""
    counted = failure.codes_of(user.name)
    failure.wait(session, counted, now)
    right = verify(vault, user, now, code)
    if not right:
        failure.failed(session, user.name, who.address, counted, now)
    return right


def _totp(secret: bytes) -> TOTP:
    # What authenticators support everywhere: SHA-1, six digits, 30 s.
    return TOTP(secret, _DIGITS, SHA1(), _STEP_S)  # noqa: S303 (RFC 6238; HMAC-SHA-1 is unbroken)


def _forget(user: User) -> None:
    user.totp, user.totp_active, user.totp_step = None, False, None


def _name(user: User) -> str:
    """Name under which a user's secret is sealed."""
    return f"totp:{user.name}"


def _user(session: Session, name: str) -> User:
    user = session.get(User, name)
    if user is None:
        raise NotFound(f"there is no user {name}")
    return user
