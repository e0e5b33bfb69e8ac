"""Receivers of alarms: webhooks and mailboxes. Their settings are sealed in the database."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.oidc_provider import Pem, Url
from hawser.controller.access.principal import Principal
from hawser.controller.access.vault import Vault
from hawser.controller.alarms.condition import Level
from hawser.controller.db.tables import Json, Receiver
from hawser.controller.errors import Conflict, NotFound
from hawser.spec.model import Model

_MOST: Final = 16


def _secret(text: str) -> str:
    prefix, _, encoded = text.partition("_")
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except ValueError:
        decoded = b""
    if prefix != "whsec" or not 24 <= len(decoded) <= 64:
        raise ValueError("expected whsec_ and 24 to 64 bytes in Base64")
    return text


Secret = Annotated[str, StringConstraints(max_length=100), AfterValidator(_secret)]
_HOST: Final = r"[0-9A-Za-z]([0-9A-Za-z.:-]{0,251}[0-9A-Za-z])?$"
_Host = Annotated[str, StringConstraints(pattern=f"^{_HOST}")]
_LOCAL: Final = r"[0-9A-Za-z.!#$%&'*+/=?^_`{|}~-]{1,64}"
_Mailbox = Annotated[str, StringConstraints(pattern=f"^{_LOCAL}@{_HOST}")]
_Word = Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=200)]


class Webhook(Model):
    """An HTTP server that takes alarms by POST, signed as standardwebhooks.com describes."""

    type: Literal["webhook"]
    url: Url
    secret: Secret | None = None
    """Key of the signature; made by the controller if left out."""
    least: Level = Level.WARNING
    """Alarms of lower levels are not sent."""
    authority: Pem | None = None
    """Certificates in PEM form that are trusted instead of the system's."""


class Mail(Model):
    """Mailboxes, reached by an SMTP server with STARTTLS (RFC 3207)."""

    type: Literal["mail"]
    host: _Host
    """The SMTP server."""
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    user: _Word | None = None
    """With a password, for authentication after STARTTLS."""
    password: Annotated[str, StringConstraints(max_length=256)] | None = None
    sender: _Mailbox
    recipients: Annotated[tuple[_Mailbox, ...], Field(min_length=1, max_length=20)]
    least: Level = Level.WARNING
    """Alarms of lower levels are not sent."""
    authority: Pem | None = None
    """Certificates in PEM form that are trusted instead of the system's."""


Settings = Annotated[Webhook | Mail, Field(discriminator="type")]
_SETTINGS: Final[TypeAdapter[Webhook | Mail]] = TypeAdapter(Settings)


def receivers(session: Session) -> Sequence[Receiver]:
    """Give all receivers."""
    return session.scalars(select(Receiver).order_by(Receiver.name)).all()


def settings(vault: Vault, row: Receiver) -> Webhook | Mail:
    """Give the settings of a receiver, with its secret."""
    return _SETTINGS.validate_json(vault.unseal(_name(row.name), row.sealed))


def plain(found: Webhook | Mail) -> Json:
    """Give settings without secrets."""
    return found.model_dump(mode="json", exclude={"secret", "password"})


def configure(
    session: Session, vault: Vault, who: Principal, now: datetime, name: str, wanted: Webhook | Mail
) -> str | None:
    """Add or replace a receiver; give the secret of a webhook if it was made here.

    Raises:
        Conflict: there are too many.
    """
    made = None
    if isinstance(wanted, Webhook) and wanted.secret is None:
        made = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
        wanted = wanted.model_copy(update={"secret": made})
    row = session.get(Receiver, name)
    before = None if row is None else plain(settings(vault, row))
    if row is None:
        if (session.scalar(select(func.count()).select_from(Receiver)) or 0) >= _MOST:
            raise Conflict(f"there are {_MOST} receivers")
        row = Receiver(name=name, created=now, abandoned=0)
        session.add(row)
    row.sealed = vault.seal(_name(name), wanted.model_dump_json().encode())
    row.least = wanted.least.value
    session.flush()
    audit.record(session, who, now, "receiver.set", name, before=before, after=plain(wanted))
    return made


def remove(session: Session, vault: Vault, who: Principal, now: datetime, name: str) -> None:
    """Remove a receiver, with the messages that wait for it.

    Raises:
        NotFound: there is none of this name.
    """
    row = by_name(session, name)
    before = plain(settings(vault, row))
    session.delete(row)
    audit.record(session, who, now, "receiver.remove", name, before=before)


def by_name(session: Session, name: str) -> Receiver:
    """Give a receiver.

    Raises:
        NotFound: there is none of this name.
    """
    row = session.get(Receiver, name)
    if row is None:
        raise NotFound(f"there is no receiver {name}")
    return row


def _name(name: str) -> str:
    return f"receiver/{name}"
