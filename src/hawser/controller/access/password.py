"""Passwords: Argon2id (RFC 9106, the second recommended option: 3 passes over 64 MiB)."""

from __future__ import annotations

import secrets
import threading
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from hawser.controller.errors import Invalid, TooMany
from hawser.spec.validate import Issue

SHORTEST, LONGEST = 12, 256
_AT_ONCE = threading.BoundedSemaphore(2)
"""Each takes 64 MiB and 50 ms of a core: logins may not use up the machine."""
_PATIENCE_S = 5.0

_hasher = PasswordHasher(time_cost=3, memory_cost=65536, parallelism=4)


def one_time_password() -> str:
    """Make a password to be changed at the first login."""
    return secrets.token_urlsafe(15)


def hash_password(password: str) -> str:
    """Hash a new password.

    Raises:
        Invalid: it is too short or too long.
    """
    check(password)
    return _hasher.hash(password)


def check(password: str) -> None:
    """Check a new password.

    Raises:
        Invalid: it is too short or too long.
    """
    if not SHORTEST <= len(password) <= LONGEST:
        message = f"found {len(password)} characters, expected {SHORTEST} to {LONGEST}"
        raise Invalid([Issue(("password",), message)])


def verify(stored: str | None, password: str) -> bool:
    """Tell whether it is the password. For a user that does not exist it takes as long.

    Raises:
        TooMany: others are waiting already.
    """
    if len(password) > LONGEST:
        return False
    if not _AT_ONCE.acquire(timeout=_PATIENCE_S):
        raise TooMany("too many logins at a time", _PATIENCE_S)
    try:
        right = _hasher.verify(stored or _nobody(), password)
    except VerificationError:
        return False
    finally:
        _AT_ONCE.release()
    return right and stored is not None


@cache
def _nobody() -> str:
    return _hasher.hash(secrets.token_urlsafe(15))
