"""The principal of a request."""

from __future__ import annotations

from dataclasses import dataclass

from hawser.controller.access.role import Permission
from hawser.spec.pair import branch_of


@dataclass(frozen=True)
class Principal:
    """A user or one of its keys."""

    name: str
    """The user's."""
    permissions: frozenset[Permission]
    address: str
    """Where the request comes from."""
    key: str | None = None
    """Id of the API key; None in a session."""
    one_time: bool = False
    """Whether it may only change its password."""
    branches: frozenset[str] | None = None
    """Branches to which its permissions are limited; None for all."""

    def has(self, branch: str) -> bool:
        """Tell whether its permissions are for this branch, or gateway of a branch, too."""
        return self.branches is None or branch_of(branch) in self.branches

    def __str__(self) -> str:
        return self.name if self.key is None else f"{self.name} (key {self.key})"


def system(what: str) -> Principal:
    """Give the principal for actions of the controller itself."""
    return Principal(what, frozenset(), "local")
