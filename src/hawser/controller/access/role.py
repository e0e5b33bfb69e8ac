"""Roles, and what each permits."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    """What a request needs."""

    READ = "read"
    """See the network, its gateways and its history."""
    AUDIT = "audit"
    """See the audit log."""
    CHANGE = "change"
    """Change the network."""
    ADMIT = "admit"
    """Make tokens, approve and revoke gateways."""
    MANAGE = "manage"
    """Manage users, and see everybody's keys."""


class Role(StrEnum):
    """What a user is, unless it has a role of `own_role`."""

    ADMIN = "admin"
    OPERATOR = "operator"
    AUDITOR = "auditor"


PERMISSIONS: Final = {
    Role.ADMIN: frozenset(Permission),
    Role.OPERATOR: frozenset({Permission.READ, Permission.CHANGE, Permission.ADMIT}),
    Role.AUDITOR: frozenset({Permission.READ, Permission.AUDIT}),
}
