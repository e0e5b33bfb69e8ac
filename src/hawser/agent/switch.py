"""The OpenFlow switch's connection to the controller, which the agent makes for it.

Open vSwitch would take every certificate of the network's authority for the controller's: it
compares no names. So it connects to a Unix socket here, and the agent goes on over TLS, to the
controller that it knows, with the certificate that it renews.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import WebSocketException

from hawser.agent.bridge import GatewayBridge
from hawser.control.link import PROTOCOL, SWITCH_PATH, SwitchHello
from hawser.control.tasks import until_first

_TICK_S: Final = 0.25
_PIECE: Final = 1 << 16
_LOST: Final = (OSError, WebSocketException, TimeoutError, ValueError)

_log = logging.getLogger(__name__)

Dial = Callable[[str], AbstractAsyncContextManager[ClientConnection]]
"""Connects to a path of the controller."""


class SwitchLink:
    """Serves the switch while there is one."""

    def __init__(self, bridge: GatewayBridge, dial: Dial) -> None:
        self._bridge, self._dial = bridge, dial
        self._open: set[asyncio.Task[None]] = set()
        """Connections of the switch; it has one, and while it reconnects perhaps two."""
        self._complaint = ""

    async def run(self) -> None:
        """Serve until cancelled."""
        path = self._bridge.socket
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        async with await asyncio.start_unix_server(self._accepted, path):
            try:
                await asyncio.Event().wait()
            finally:
                for task in self._open:
                    task.cancel()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._passed_on(reader, writer))
        self._open.add(task)
        try:
            await asyncio.gather(task, return_exceptions=True)
        finally:
            task.cancel()
            self._open.discard(task)
            writer.close()

    async def _passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._dial(SWITCH_PATH) as connection:
                said = self._hello()
                await connection.send(said.model_dump_json())
                _log.info("the OpenFlow switch is connected")
                self._complaint = ""
                await until_first(
                    self._say(connection, said), _up(reader, connection), _down(connection, writer)
                )
        except _LOST as error:
            complaint = str(error) or type(error).__name__
            if complaint != self._complaint:  # it tries again each second
                _log.warning("OpenFlow: %s", complaint)
            self._complaint = complaint

    def _hello(self) -> SwitchHello:
        bridge = self._bridge
        return SwitchHello(protocol=PROTOCOL, digest=bridge.digest, stations=dict(bridge.stations))

    async def _say(self, connection: ClientConnection, said: SwitchHello) -> None:
        """Say what changes."""
        while True:
            await asyncio.sleep(_TICK_S)
            hello = self._hello()
            if hello != said:
                said = hello
                await connection.send(hello.model_dump_json())


async def _up(reader: asyncio.StreamReader, connection: ClientConnection) -> None:
    while data := await reader.read(_PIECE):
        await connection.send(data)


async def _down(connection: ClientConnection, writer: asyncio.StreamWriter) -> None:
    async for data in connection:
        if isinstance(data, bytes):
            writer.write(data)
            await writer.drain()
