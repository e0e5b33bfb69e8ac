"""API keys: for programs, with an expiry and at most their owner's permissions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.access.role import PERMISSIONS, Permission, Role
from hawser.controller.access.secret import digest, new_id, new_secret, same
from hawser.controller.db.tables import ApiKey, User
from hawser.controller.errors import Forbidden, NotFound

PREFIX = "hwk_"
LONGEST = timedelta(days=400)


def keys(session: Session, owner: str | None = None) -> Sequence[ApiKey]:
    """Give the keys of a user, or of all."""
    wanted = select(ApiKey).order_by(ApiKey.created)
    return session.scalars(wanted if owner is None else wanted.where(ApiKey.owner == owner)).all()


def add_key(
    session: Session,
    who: Principal,
    now: datetime,
    purpose: str,
    permissions: Iterable[Permission],
    lifetime: timedelta,
) -> tuple[ApiKey, str]:
    """Make a key, and give it with the text that is sent with requests.

    Raises:
        Forbidden: it would permit more than its owner may.
    """
    wanted = frozenset(permissions)
    if beyond := wanted - who.permissions:
        raise Forbidden(f"you have no permission to {', '.join(sorted(beyond))}")
    secret, name = new_secret(), new_id()
    key = ApiKey(
        id=name,
        digest=digest(secret),
        owner=who.name,
        purpose=purpose,
        permissions=sorted(wanted),
        created=now,
        expires=now + lifetime,
    )
    session.add(key)
    session.flush()
    after = {"purpose": purpose, "permissions": sorted(wanted), "expires": str(key.expires)}
    audit.record(session, who, now, "key.add", name, after=after)
    return key, f"{PREFIX}{name}_{secret}"


def remove_key(session: Session, who: Principal, now: datetime, name: str) -> None:
    """Remove one's own key, or as an admin anybody's.

    Raises:
        NotFound: there is no such key, or it is somebody else's.
    """
    key = session.get(ApiKey, name)
    if key is None or (key.owner != who.name and Permission.MANAGE not in who.permissions):
        raise NotFound(f"there is no key {name}")
    session.delete(key)
    audit.record(session, who, now, "key.remove", name, before={"purpose": key.purpose})


def principal(session: Session, text: str, address: str, now: datetime) -> Principal | None:
    """Give the principal of a key; None if there is no such key."""
    name, _, secret = text.removeprefix(PREFIX).partition("_")
    key = session.get(ApiKey, name)
    if key is None or key.expires <= now or not same(key.digest, digest(secret)):
        return None
    user = session.get_one(User, key.owner)
    granted = frozenset(map(Permission, key.permissions)) & PERMISSIONS[Role(user.role)]
    return Principal(user.name, granted, address, key=name)
