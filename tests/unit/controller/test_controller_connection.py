"""Connections to the API that are too many, or on which nothing comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from hawser.controller.api import guard
from hawser.controller.api.connection import Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n"


class Few(Connection):
    """Limits that a test reaches."""

    most_of_source = 3
    head_s = 0.3


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[int]:
    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 (ASGI)
        if scope["type"] == "http":
            await asyncio.sleep(0.6)  # longer than a head may take
            await PlainTextResponse("done")(scope, receive, send)

    config = uvicorn.Config(app, port=0, http=Few, lifespan="off", log_config=None, ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


async def closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        return not await reader.read()
    return True


def test_a_connection_without_a_request_is_closed() -> None:
    async def main() -> None:
        async with served() as port, asyncio.timeout(60):
            for part in (b"", REQUEST, REQUEST + b"\r\n" + REQUEST):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(part)
                if part.endswith(b"\r\n\r\n" + REQUEST):
                    assert b"done" in await reader.readuntil(b"done")
                    writer.write(b"x")
                assert await closed(reader), "the head of a request is late"
                writer.close()

    asyncio.run(main())


def test_a_source_has_only_so_many_connections() -> None:
    async def main() -> None:
        async with served() as port, asyncio.timeout(60):
            made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for _, writer in made:
                writer.write(REQUEST + b"\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await closed(reader), "it has three already"
            writer.close()
            for reader, writer in made:
                assert b"done" in await reader.readuntil(b"done"), "those go on"
                writer.close()
            await asyncio.sleep(0.2)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST + b"\r\n")
            assert b"done" in await reader.readuntil(b"done"), "there is room again"
            writer.close()

    asyncio.run(main())
    assert not Few._of_source


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_BODY_S", 0.2)

    async def never() -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {}

    async def main() -> None:
        limited = guard._Limited(never, 5)
        with pytest.raises(HTTPException) as caught:
            await limited()
        assert caught.value.status_code == 408

    asyncio.run(asyncio.wait_for(main(), 60))
