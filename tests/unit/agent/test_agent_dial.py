"""Connections to the controller: their priority, and which addresses are tried."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from hawser.agent import dial


def test_packets_are_in_the_first_class() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        opened = asyncio.run(dial.dial(*server.getsockname()))
        with opened:
            assert opened.getpeername() == server.getsockname()
            if os.geteuid() == 0:
                assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) == 0x1_0010


def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dial, "_EACH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):  # its queue takes no other one
            addresses = [full.getsockname(), ("127.0.0.1", 1), server.getsockname()]

            async def resolved(*_: object, **__: object) -> list[Any]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in addresses]

            async def dialled() -> socket.socket:
                monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
                return await dial.dial("controller", 8444)

            with asyncio.run(dialled()) as opened:
                assert opened.getpeername() == server.getsockname()


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(dial.dial("127.0.0.1", 1))
