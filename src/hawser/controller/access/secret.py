"""Random secrets that are handed out once. The database holds digests."""

from __future__ import annotations

import secrets
from hashlib import sha256

_BYTES = 32
"""256 bits: guessing is hopeless, so a plain digest is as good as a slow one."""


def new_secret() -> str:
    """Make a secret: 43 characters that need no quoting anywhere."""
    return secrets.token_urlsafe(_BYTES)


def new_id() -> str:
    """Make a name for a secret, which is no secret."""
    return secrets.token_hex(6)


def digest(secret: str) -> str:
    """Give what is stored of a secret."""
    return sha256(secret.encode()).hexdigest()


def same(one: str, other: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(one.encode(), other.encode())
