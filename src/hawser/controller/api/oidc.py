"""Routes: logging in at an OpenID provider."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from hawser.controller.access import oidc
from hawser.controller.access.limit import source_of
from hawser.controller.access.oidc_provider import Settings
from hawser.controller.access.secret import same
from hawser.controller.api.access import begun
from hawser.controller.api.answer import documented
from hawser.controller.api.depends import Manager, Shared
from hawser.controller.api.guard import address_of
from hawser.controller.api.model import LoginAnswer, OidcAnswer
from hawser.controller.errors import TooMany, Unauthorized

open_router = APIRouter(tags=["access"])
router = APIRouter(tags=["access"])
_COOKIE: Final = "__Host-hawser-login"
"""The login that this browser began: nobody can make it end another one (RFC 9700 2.1)."""

_Text = Annotated[str, Query(max_length=2000)]
_REDIRECT: Final[dict[int | str, dict[str, Any]]] = {
    303: {"description": "The browser goes on.", "content": {}}
}


@open_router.get(
    "/login/oidc",
    status_code=303,
    response_class=RedirectResponse,
    responses=documented(404, 429, 502),
)
def begin(request: Request, shared: Shared, cookie: bool = True) -> RedirectResponse:
    """Send the browser to the OpenID provider. Without `cookie` it is shown the session's token."""
    wait = shared.logins.take(source_of(address_of(request.scope)), time.monotonic())
    if wait:
        raise TooMany("too many logins were begun from here", wait)
    made = oidc.start(shared.database, shared.vault, shared.clock(), cookie=cookie)
    answer = RedirectResponse(made.url, 303)
    answer.set_cookie(_COOKIE, made.state, max_age=600, secure=True, httponly=True, samesite="lax")
    return answer


@open_router.get("/login/oidc/callback", responses=_REDIRECT | documented(401, 403, 404, 429, 502))
def end(
    request: Request,
    response: Response,
    shared: Shared,
    state: _Text = "",
    code: _Text = "",
    error: _Text = "",
) -> LoginAnswer:
    """Begin a session of a user who comes back from the OpenID provider."""
    if not state or not same(request.cookies.get(_COOKIE, ""), state):
        raise Unauthorized("this browser did not begin this login; log in again")
    if error or not code:
        raise Unauthorized(f"the provider refused: {error or 'it gave no code'}")
    address, now = address_of(request.scope), shared.clock()
    made, cookie = oidc.finish(shared.database, shared.vault, state, code, address, now)
    response.delete_cookie(_COOKIE, secure=True, httponly=True, samesite="lax")
    if cookie:
        response.status_code, response.headers["Location"] = 303, "/"
    return begun(made, response, cookie=cookie)


@router.get("/oidc", responses=documented(404))
def read(shared: Shared, _who: Manager) -> OidcAnswer:
    """Tell how users log in at the OpenID provider."""
    with shared.database.read() as session:
        found = oidc.settings(session, shared.vault)
    return OidcAnswer(**found.model_dump(exclude={"client_secret"}))


@router.put("/oidc", status_code=204)
def configure(body: Settings, shared: Shared, who: Manager) -> None:
    """Let users log in at an OpenID provider."""
    with shared.database.write() as session:
        oidc.configure(session, shared.vault, who, shared.clock(), body)


@router.delete("/oidc", status_code=204, responses=documented(404))
def remove(shared: Shared, who: Manager) -> None:
    """Let nobody log in at the OpenID provider any more. Sessions go on until they end."""
    with shared.database.write() as session:
        oidc.remove(session, shared.vault, who, shared.clock())
