"""Authentication of requests by their token."""

from __future__ import annotations

from datetime import datetime

from hawser.controller.access import key, login
from hawser.controller.access.principal import Principal
from hawser.controller.db.database import Database

_LONGEST = 256
_METHODS = {key.PREFIX: key.principal, login.PREFIX: login.principal}


def authenticate(database: Database, text: str, address: str, now: datetime) -> Principal | None:
    """Give the principal of a session's token or an API key; None if it is not valid."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    method = next((each for prefix, each in _METHODS.items() if text.startswith(prefix)), None)
    if method is None:
        return None
    with database.read() as session:
        return method(session, text, address, now)
