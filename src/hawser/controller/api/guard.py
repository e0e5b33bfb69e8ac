"""Authentication and size limits in front of every route.

A request is refused before any of its body is read. A route is open only if `OPEN` lists it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hawser.controller.access.authenticate import authenticate
from hawser.controller.access.browser import HEADER, is_foreign, is_forged, session_of
from hawser.controller.access.limit import RateLimit, source_of
from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import AWAY, problem, unavailable
from hawser.controller.context import Context

OPEN: Final = frozenset(
    {
        ("GET", "/v1/health"),
        ("POST", "/v1/login"),
        ("GET", "/v1/login/oidc"),
        ("GET", "/v1/login/oidc/callback"),
        ("GET", "/v1/join"),
        ("POST", "/v1/join"),
    }
)
"""Routes that need no authentication."""
_PASSWORD: Final = frozenset({("PUT", "/v1/me/password"), ("POST", "/v1/logout")})
"""Routes open to a user who has to change a one-time password."""
_MOST_OPEN: Final = 16 * 1024
_BODY_S: Final = 60.0
"""Seconds for a body to arrive."""
_MOST: Final = 8 * 1024 * 1024
"""Bytes of a body. A network of 960 branches has 400 kB."""


class Guard:
    """ASGI middleware that authenticates requests, and limits their number and their bodies."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on with its principal."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no route is a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        try:
            refused = await self._refused(scope, headers)
        except AWAY as error:  # outside of what the application handles
            refused = unavailable(error)
        if refused is not None:
            await refused(scope, receive, send)
            return
        most = _MOST_OPEN if _route(scope) in OPEN else _MOST
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            await problem(413, f"expected at most {most} bytes")(scope, receive, send)
            return
        await self._app(scope, _Limited(receive, most), send)

    async def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Give the answer to a request that is refused; else put the principal into its state."""
        method, origin = scope["method"], headers.get("origin")
        if is_foreign(method, origin, headers.get("host", "")):
            return problem(403, f"found a request from a page of {origin}")
        if _route(scope) in OPEN:
            return _too_many(self._context.unknown, source_of(address_of(scope)))
        token, cookie = _token(headers)
        who = await self._who(token, address_of(scope)) if token else None
        if token is None or who is None:
            answer = problem(401, "log in, or send an API key")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return _too_many(self._context.unknown, source_of(address_of(scope))) or answer
        if cookie and is_forged(method, token, headers.get(HEADER, "")):
            return problem(403, "expected the session's CSRF token in X-CSRF-Token")
        if who.one_time and _route(scope) not in _PASSWORD:
            return problem(403, "change the password first")
        scope.setdefault("state", {}).update(principal=who, token=token, cookie=cookie)
        return _too_many(self._context.known, who.key or who.name)

    async def _who(self, token: str, address: str) -> Principal | None:
        context = self._context
        return await run_in_threadpool(
            authenticate, context.database, token, address, context.clock()
        )


def _too_many(limit: RateLimit, caller: str) -> Response | None:
    wait = limit.take(caller, time.monotonic())
    if not wait:
        return None
    answer = problem(429, "too many requests")
    answer.headers["Retry-After"] = str(int(wait) + 1)
    return answer


def _route(scope: Scope) -> tuple[str, str]:
    return scope["method"], scope["path"]


def _token(headers: Headers) -> tuple[str | None, bool]:
    """Give the token that a request carries, and whether it is in a cookie."""
    authorization = headers.get("authorization")
    if authorization is None:
        return session_of(headers.get("cookie", "")), True
    scheme, _, token = authorization.partition(" ")
    return token if scheme.lower() == "bearer" else None, False


def address_of(scope: Scope) -> str:
    """Give the address a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else "local"


class _Limited:
    """Refuses a body that exceeds the limit, whatever its Content-Length was, or takes too long."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most
        self._until = asyncio.get_running_loop().time() + _BODY_S
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:  # the next message says that the client is gone
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body took too long") from None
        self._whole = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, "the body is too large")
        return message
