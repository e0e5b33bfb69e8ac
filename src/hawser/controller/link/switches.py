"""Connections of gateways' OpenFlow switches, passed on to the OpenFlow controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from websockets.asyncio.server import ServerConnection

from hawser.control.client import ControlError
from hawser.control.link import PROTOCOL, REPLACED, REVOKED, SwitchHello
from hawser.control.tasks import until_first
from hawser.controller.jobs.openflow import SwitchControl
from hawser.controller.jobs.watch import Plan

_HELLO_S: Final = 10.0
_AGAIN_S: Final = 2.0
_PIECE: Final = 1 << 16

_log = logging.getLogger(__name__)


class Switches:
    """Knows the switches that are connected to this controller."""

    def __init__(self, control: SwitchControl) -> None:
        self._control = control
        self._connections: dict[int, ServerConnection] = {}
        """By the number of the gateway."""
        self._telling: set[asyncio.Task[None]] = set()

    def take(self, plan: Plan) -> None:
        """Take a plan: other entries, and which gateways are approved."""
        for number, connection in tuple(self._connections.items()):
            if number not in plan.approved:
                self._later(connection.close(REVOKED, "this gateway was revoked"))
        self._control.take(plan)

    async def serve(self, connection: ServerConnection, gateway: tuple[int, str]) -> None:
        """Pass on the connection of a gateway's switch until it ends.

        Raises:
            ConnectionClosed: it has ended.
            ValueError: the gateway does not keep to the protocol.
            TimeoutError: it says nothing.
        """
        hello = _read(str(await asyncio.wait_for(connection.recv(), _HELLO_S)))
        number, name = gateway
        old = self._connections.get(number)
        self._connections[number] = connection
        if old is not None:
            await old.close(REPLACED, "the switch has connected once more")
        try:
            if await asyncio.to_thread(self._control.join, name, hello):
                await self._passed_on(connection, name)
            else:  # it has returned to what only a controller before knew, or has just connected
                await asyncio.sleep(_AGAIN_S)
        except (ControlError, OSError) as error:
            _log.error("OpenFlow switch of %s: %s", name, error)
        finally:
            if self._connections.get(number) is connection:
                del self._connections[number]
                self._control.leave(name)

    async def _passed_on(self, connection: ServerConnection, name: str) -> None:
        reader, writer = await asyncio.open_unix_connection(self._control.relay)
        writer.write(f"{name}\n".encode())

        async def up() -> None:
            async for data in connection:
                if isinstance(data, bytes):
                    writer.write(data)
                    await writer.drain()
                elif not await asyncio.to_thread(self._control.join, name, _read(data)):
                    return

        async def down() -> None:
            while data := await reader.read(_PIECE):
                await connection.send(data)

        try:
            await until_first(up(), down())
        finally:
            writer.close()

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


def _read(text: str) -> SwitchHello:
    hello = SwitchHello.model_validate_json(text)
    if hello.protocol != PROTOCOL:
        raise ValueError(f"expected protocol {PROTOCOL}")
    return hello
