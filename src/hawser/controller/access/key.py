"""API keys: for programs, with an expiry and at most their owner's permissions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.own_role import BY_BRANCH, grant_of
from hawser.controller.access.principal import Principal
from hawser.controller.access.role import Permission
from hawser.controller.access.secret import digest, new_id, new_secret, same
from hawser.controller.db.tables import ApiKey, User
from hawser.controller.errors import Forbidden, Invalid, NotFound
from hawser.spec.validate import Issue

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
    branches: Iterable[str] | None = None,
) -> tuple[ApiKey, str]:
    """Make a key, and give it with the text that is sent with requests.

    Raises:
        Forbidden: it would permit more than its owner may.
        Invalid: some permissions cannot be limited to branches.
    """
    wanted = frozenset(permissions)
    if beyond := wanted - who.permissions:
        raise Forbidden(f"you have no permission to {', '.join(sorted(beyond))}")
    limit = None if branches is None else sorted(set(branches))
    if limit is not None and (beyond := wanted - BY_BRANCH):
        message = f"found {', '.join(sorted(beyond))}, which cannot be limited to branches"
        raise Invalid([Issue(("permissions",), message)])
    if others := [each for each in limit or () if not who.has(each)]:
        raise Forbidden(f"you have no permission for {', '.join(others)}")
    secret, name = new_secret(), new_id()
    key = ApiKey(
        id=name,
        digest=digest(secret),
        owner=who.name,
        purpose=purpose,
        permissions=sorted(wanted),
        branches=limit,
        created=now,
        expires=now + lifetime,
    )
    session.add(key)
    session.flush()
    after = {
        "purpose": purpose,
        "permissions": sorted(wanted),
        "branches": limit,
        "expires": str(key.expires),
    }
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
    grant = grant_of(session, user.role)
    granted = frozenset(map(Permission, key.permissions)) & grant.permissions
    branches = grant.branches
    if key.branches is not None:
        limit = frozenset(key.branches)
        branches = limit if branches is None else limit & branches
    return Principal(user.name, granted, address, key=name, branches=branches)
