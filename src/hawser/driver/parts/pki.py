"""The lab's own certificate authority: one certificate a branch, for gateways to know each other.

The authority's key is never written: it signs once and is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hawser.pki.authority import Authority, pem
from hawser.pki.file import create_private
from hawser.pki.key import key_pem, new_key

_VALID = timedelta(days=60)
"""Longer than any campaign; a lab is made anew for each trial."""


def make(directory: Path, branches: Iterable[str], now: datetime | None = None) -> None:
    """Write `ca.pem`, and for every branch `BRANCH.pem` and `BRANCH.key`, for the owner alone."""
    now = now or datetime.now(UTC)
    authority = Authority.create("Hawser lab", now, _VALID)
    create_private(directory / "ca.pem", authority.pem)
    for branch in branches:
        key = new_key()
        certificate = authority.sign(key.public_key(), [branch], now, _VALID)
        create_private(directory / f"{branch}.pem", pem(certificate))
        create_private(directory / f"{branch}.key", key_pem(key))
