"""The lab's own certificate authority: one certificate a branch, for gateways to know each other.

A server, such as the REST API of a firewall, has one too.

The authority's key is never written: it signs once and is forgotten.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hawser.pki.authority import Authority, pem
from hawser.pki.file import create_private
from hawser.pki.key import key_pem, new_key

_VALID = timedelta(days=60)
"""Longer than any campaign; a lab is made anew for each trial."""


def make(directory: Path, names: Iterable[str], now: datetime | None = None) -> None:
    """Write `ca.pem`, and for every name `NAME.pem` and `NAME.key`, for the owner alone."""
    now = now or datetime.now(UTC)
    authority = Authority.create("Hawser lab", now, _VALID)
    create_private(directory / "ca.pem", authority.pem)
    for name in names:
        key = new_key()
        certificate = authority.sign(key.public_key(), [name], now, _VALID)
        create_private(directory / f"{name}.pem", pem(certificate))
        create_private(directory / f"{name}.key", key_pem(key))


def make_tokens(directory: Path, names: Iterable[str]) -> None:
    """Write a bearer token for every server, `NAME.token`, for the owner alone."""
    for name in names:
        create_private(directory / f"{name}.token", f"{secrets.token_hex(32)}\n".encode())
