"""Secrets in the database: sealed with a key that is not in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from hawser.controller.db.tables import Secret
from hawser.pki.seal import seal, unseal


@dataclass(frozen=True)
class Vault:
    """Seals and unseals."""

    key: bytes = field(repr=False)

    def seal(self, name: str, secret: bytes) -> bytes:
        """Encrypt a secret. Under another name it does not open."""
        return seal(self.key, name, secret)

    def unseal(self, name: str, sealed: bytes) -> bytes:
        """Decrypt a secret.

        Raises:
            ValueError: it was sealed with another key or under another name.
        """
        return unseal(self.key, name, sealed)

    def read(self, session: Session, name: str) -> bytes | None:
        """Give a secret of the database."""
        found = session.get(Secret, name)
        return None if found is None else self.unseal(name, found.sealed)

    def write(self, session: Session, name: str, secret: bytes) -> None:
        """Put a secret into the database, in the place of the one of that name."""
        session.merge(Secret(name=name, sealed=self.seal(name, secret)))
