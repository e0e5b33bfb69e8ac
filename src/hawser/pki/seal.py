"""Secrets at rest: sealed with a key that is stored elsewhere (AES-256-GCM, NIST SP 800-38D)."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12
"""Bytes of a nonce. Random ones are safe for 2^32 secrets of a key (section 8.3)."""


def new_sealing_key() -> bytes:
    """Make a key of 32 bytes."""
    return AESGCM.generate_key(bit_length=256)


def seal(key: bytes, name: str, secret: bytes) -> bytes:
    """Encrypt a secret. `name` is authenticated: a secret cannot take another's place."""
    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, secret, name.encode())


def unseal(key: bytes, name: str, sealed: bytes) -> bytes:
    """Decrypt a secret.

    Raises:
        ValueError: it was sealed with another key or under another name, or has been changed.
    """
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], name.encode())
    except (InvalidTag, ValueError) as error:
        raise ValueError(f"the secret {name!r} does not open with this key") from error
