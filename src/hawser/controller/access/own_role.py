"""Roles that admins make: some permissions, for all branches or for some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hawser.controller.access import audit
from hawser.controller.access.principal import Principal
from hawser.controller.access.role import PERMISSIONS, Permission, Role
from hawser.controller.db.tables import Json, OwnRole, User
from hawser.controller.errors import Conflict, Invalid, NotFound
from hawser.spec.validate import Issue

BY_BRANCH: Final = frozenset({Permission.READ, Permission.CHANGE, Permission.ADMIT})
"""Permissions that can be limited to branches."""


@dataclass(frozen=True)
class Grant:
    """What a role permits."""

    permissions: frozenset[Permission]
    branches: frozenset[str] | None = None
    """Branches to which it is limited; None for all."""


def grant_of(session: Session, role: str) -> Grant:
    """Give what a role permits.

    Raises:
        Invalid: there is no such role.
    """
    if role in list(Role):
        return Grant(PERMISSIONS[Role(role)])
    found = session.get(OwnRole, role)
    if found is None:
        names = ", ".join([*Role, *(each.name for each in own_roles(session))])
        raise Invalid([Issue(("role",), f"found {role}, expected one of {names}")])
    branches = None if found.branches is None else frozenset(found.branches)
    return Grant(frozenset(map(Permission, found.permissions)), branches)


def own_roles(session: Session) -> Sequence[OwnRole]:
    """Give all roles that were made."""
    return session.scalars(select(OwnRole).order_by(OwnRole.name)).all()


def set_own_role(
    session: Session,
    who: Principal,
    now: datetime,
    name: str,
    permissions: Iterable[Permission],
    branches: Iterable[str] | None,
) -> OwnRole:
    """Make a role or change it, which applies to its users at once.

    Raises:
        Conflict: it has the name of a built-in role.
        Invalid: some permissions cannot be limited to branches.
    """
    if name in list(Role):
        raise Conflict(f"{name} is a built-in role")
    wanted = frozenset(permissions)
    if branches is not None and (beyond := wanted - BY_BRANCH):
        message = f"found {', '.join(sorted(beyond))}, which cannot be limited to branches"
        raise Invalid([Issue(("permissions",), message)])
    role = session.get(OwnRole, name)
    before = None if role is None else _plain(role)
    if role is None:
        role = OwnRole(name=name)
        session.add(role)
    role.permissions = sorted(wanted)
    role.branches = None if branches is None else sorted(set(branches))
    session.flush()
    audit.record(session, who, now, "role.set", name, before=before, after=_plain(role))
    return role


def remove_own_role(session: Session, who: Principal, now: datetime, name: str) -> None:
    """Remove a role.

    Raises:
        NotFound: there is no such role.
        Conflict: somebody has it.
    """
    role = session.get(OwnRole, name)
    if role is None:
        raise NotFound(f"there is no role {name}")
    holders = select(func.count()).select_from(User).where(User.role == name)
    if count := session.scalar(holders):
        raise Conflict(f"{count} users have the role {name}")
    before = _plain(role)
    session.delete(role)
    audit.record(session, who, now, "role.remove", name, before=before)


def _plain(role: OwnRole) -> Json:
    return {"permissions": role.permissions, "branches": role.branches}
