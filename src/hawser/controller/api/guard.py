"""Authentication and size limits in front of every route.

A request is refused before any of its body is read. A route is open only if `OPEN` lists it.
"""

from __future__ import annotations

from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hawser.controller.access.authenticate import authenticate
from hawser.controller.access.principal import Principal
from hawser.controller.api.answer import problem
from hawser.controller.context import Context

OPEN: Final = frozenset(
    {("GET", "/v1/health"), ("POST", "/v1/login"), ("GET", "/v1/join"), ("POST", "/v1/join")}
)
"""Routes that need no authentication."""
_PASSWORD: Final = frozenset({("PUT", "/v1/me/password"), ("POST", "/v1/logout")})
"""Routes open to a user who has to change a one-time password."""
_MOST_OPEN: Final = 16 * 1024
_MOST: Final = 8 * 1024 * 1024
"""Bytes of a body. A network of 960 branches has 400 kB."""


class Guard:
    """ASGI middleware that authenticates requests and limits their bodies."""

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
        route = (scope["method"], scope["path"])
        headers = Headers(scope=scope)
        most = _MOST_OPEN
        if route not in OPEN:
            who = await self._who(headers.get("authorization", ""), address_of(scope))
            if who is None:
                answer = problem(401, "log in, or send an API key")
                answer.headers["WWW-Authenticate"] = "Bearer"
                await answer(scope, receive, send)
                return
            if who.one_time and route not in _PASSWORD:
                await problem(403, "change the password first")(scope, receive, send)
                return
            scope.setdefault("state", {})["principal"], most = who, _MOST
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            await problem(413, f"expected at most {most} bytes")(scope, receive, send)
            return
        await self._app(scope, _Limited(receive, most), send)

    async def _who(self, authorization: str, address: str) -> Principal | None:
        if not authorization:
            return None
        context = self._context
        return await run_in_threadpool(
            authenticate, context.database, authorization, address, context.clock()
        )


def address_of(scope: Scope) -> str:
    """Give the address a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else "local"


class _Limited:
    """Refuses a body that exceeds the limit, whatever its Content-Length was."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413, "the body is too large")
        return message
