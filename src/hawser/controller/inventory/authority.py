"""The controller's own certificate authority. Its key is sealed in the database."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from hawser.controller.access.vault import Vault
from hawser.pki.authority import Authority

_LIFETIME = timedelta(days=3650)
_CERTIFICATE, _KEY = "authority.certificate", "authority.key"


def create(session: Session, sealing_key: bytes, name: str, now: datetime) -> Authority:
    """Make the authority of a new network."""
    authority = Authority.create(f"Hawser {name}", now, _LIFETIME)
    for secret, content in ((_CERTIFICATE, authority.pem), (_KEY, authority.key_pem)):
        Vault(sealing_key).write(session, secret, content)
    return authority


def load(session: Session, sealing_key: bytes) -> Authority:
    """Give the authority.

    Raises:
        ValueError: it was sealed with another key.
    """
    certificate, key = (
        Vault(sealing_key).read(session, name) or b"" for name in (_CERTIFICATE, _KEY)
    )
    return Authority.load(certificate, key)
