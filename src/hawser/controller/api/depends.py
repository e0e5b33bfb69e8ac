"""Dependencies of routes: the context, the principal, permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from hawser.controller.access.principal import Principal
from hawser.controller.access.role import Permission
from hawser.controller.context import Context
from hawser.controller.errors import Forbidden

bearer = HTTPBearer(auto_error=False, description="Token of a session, or an API key.")
"""For the OpenAPI document only: `Guard` authenticates."""


def _context(request: Request) -> Context:
    return cast("Context", request.app.state.context)


def _principal(request: Request) -> Principal:
    return cast("Principal", request.state.principal)


def _token(request: Request) -> str:
    return cast("str", request.state.token)


CallerToken = Annotated[str, Depends(_token)]
"""The caller's token, which is valid at all controllers."""
Shared = Annotated[Context, Depends(_context)]
Who = Annotated[Principal, Depends(_principal)]


def need(permission: Permission, *, by_branch: bool = False) -> Callable[[Principal], Principal]:
    """Give a dependency that requires a permission.

    A principal that is limited to some branches is refused unless the route says that it looks at
    `Principal.branches` itself.
    """

    def check(who: Who) -> Principal:
        if permission not in who.permissions:
            raise Forbidden(f"you have no permission to {permission.value}")
        if who.branches is not None and not by_branch:
            raise Forbidden(f"your permission to {permission.value} is for some branches only")
        return who

    return check


Reader = Annotated[Principal, Depends(need(Permission.READ))]
Auditor = Annotated[Principal, Depends(need(Permission.AUDIT))]
Changer = Annotated[Principal, Depends(need(Permission.CHANGE))]
Admitter = Annotated[Principal, Depends(need(Permission.ADMIT))]
Manager = Annotated[Principal, Depends(need(Permission.MANAGE))]
BranchReader = Annotated[Principal, Depends(need(Permission.READ, by_branch=True))]
BranchChanger = Annotated[Principal, Depends(need(Permission.CHANGE, by_branch=True))]
BranchAdmitter = Annotated[Principal, Depends(need(Permission.ADMIT, by_branch=True))]
