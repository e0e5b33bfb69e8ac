"""Sessions of browsers: a cookie that scripts cannot read, and a token against forged requests.

A browser sends its cookie with every request, also with those that another site makes it send. So
a request that changes something has to carry the CSRF token too, which only a page of this
controller can know, and must not come from another origin.
"""

from __future__ import annotations

from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from hawser.controller.access.secret import same

COOKIE: Final = "__Host-hawser-session"
"""`__Host-`: set by this host over TLS, for all paths, and sent to no other (RFC 6265bis 4.1.3)."""
HEADER: Final = "x-csrf-token"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110 section 9.2.1)."""


def csrf_token(token: str) -> str:
    """Give the CSRF token of a session. The session cannot be computed from it."""
    return sha256(f"csrf {token}".encode()).hexdigest()


def session_of(cookies: str) -> str | None:
    """Give the session's token of a `Cookie` header."""
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return found.value if found else None


def is_forged(method: str, token: str, given: str) -> bool:
    """Tell whether a request with a session's cookie may come from somewhere else."""
    return method not in _SAFE and not same(csrf_token(token), given)


def is_foreign(method: str, origin: str | None, host: str) -> bool:
    """Tell whether a request comes from a page of another origin, by `Origin` (RFC 6454)."""
    if origin is None or method in _SAFE:
        return False  # a program, or a request that changes nothing
    try:
        parts = urlsplit(origin)
    except ValueError:
        return True
    return (parts.scheme, parts.netloc) != ("https", host)
