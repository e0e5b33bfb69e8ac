"""What an operator hands to a gateway: a secret for the controller, and how to know the controller.

    ID.SECRET.PIN

The pin is the SHA-256 of the authority's certificate. So nobody between the two can pose as the
controller, and no certificate has to be copied by hand.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

_FORM = re.compile(r"([0-9a-f]{12})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class JoinToken:
    """A token to join."""

    id: str
    secret: str
    pin: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a token.

        Raises:
            ValueError: it is none, or a part of it is missing.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise ValueError("expected a token as the controller shows it: three parts, two dots")
        return cls(*found.groups())

    def __str__(self) -> str:
        return f"{self.id}.{self.secret}.{self.pin}"


def pin(certificate_pem: bytes) -> str:
    """Give the pin of an authority's certificate."""
    return urlsafe_b64encode(sha256(certificate_pem).digest()).decode().rstrip("=")
