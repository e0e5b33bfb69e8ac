"""Connections that come through a proxy, which says for whom (PROXY protocol, version 2).

A proxy that passes TCP through would otherwise be the address of every request: in the audit log,
in rate limits, and in the limit of connections of one address. Its header comes before TLS, so
connections are accepted here, and handed to the server when the header has been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import uvicorn

from hawser.controller.access.limit import plain
from hawser.controller.api.connection import MOST, Connection
from hawser.controller.listen import bound

Client = tuple[str, int]
"""Address and port."""
Factory = Callable[[Client], asyncio.Protocol]

_log = logging.getLogger(__name__)

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
FIXED: Final = 16
"""Bytes before the addresses: signature, version and command, family and protocol, length."""
_VERSION: Final = 2
_LOCAL, _PROXY = 0, 1
_TCP4, _TCP6 = 0x11, 0x21
_LONGEST: Final = 4096
"""Bytes of addresses and extensions."""
_HEADER_S: Final = 10.0
_TLS_S: Final = 10.0
_BACKLOG: Final = 512


def length_of(fixed: bytes) -> int:
    """Give the number of bytes that follow the fixed part of a header.

    Raises:
        ValueError: it is no header of version 2.
    """
    if fixed[:12] != SIGNATURE or fixed[12] >> 4 != _VERSION:
        raise ValueError("expected a header of the PROXY protocol, version 2")
    length = int.from_bytes(fixed[14:16])
    if length > _LONGEST:
        raise ValueError(f"found a header of {length} bytes, expected at most {_LONGEST}")
    return length


def client_of(fixed: bytes, rest: bytes) -> Client | None:
    """Give the client that a header names; None where the proxy speaks for itself.

    Raises:
        ValueError: the header is too short for its family, or has another command.
    """
    command, family = fixed[12] & 0xF, fixed[13]
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise ValueError(f"found command {command}, expected LOCAL or PROXY")
    size = {_TCP4: 4, _TCP6: 16}.get(family)
    if size is None:
        return None  # it does not know
    if len(rest) < 2 * size + 4:
        raise ValueError("found a header that ends within its addresses")
    kind = IPv4Address if family == _TCP4 else IPv6Address
    return str(kind(rest[:size])), int.from_bytes(rest[2 * size : 2 * size + 2])


class Door:
    """Accepts connections; those of proxies have to begin with a header."""

    def __init__(
        self, proxies: Collection[IPv4Address | IPv6Address], tls: ssl.SSLContext, most: int
    ) -> None:
        """Take the addresses of proxies, and how many connections may wait for their header."""
        self._proxies = frozenset(proxies)
        self._tls = tls
        self._most = most
        self._waiting: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket, factory: Factory) -> AsyncIterator[None]:
        """Serve a bound socket until left. The factory makes a protocol for each client."""
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        task = asyncio.create_task(self._accept(listener, factory))
        try:
            yield
        finally:
            tasks = (task, *self._waiting)
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            listener.close()

    async def _accept(self, listener: socket.socket, factory: Factory) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:  # no descriptor is left, or the client is gone
                _log.warning("a connection cannot be accepted: %s", error.strerror)
                await asyncio.sleep(0.1)
                continue
            if len(self._waiting) >= self._most:
                accepted.close()
                continue
            accepted.setblocking(False)
            task = asyncio.create_task(self._serve(accepted, address[:2], factory))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _serve(self, accepted: socket.socket, address: Client, factory: Factory) -> None:
        loop = asyncio.get_running_loop()
        handed = False
        try:
            async with asyncio.timeout(_HEADER_S):
                client = await self._client(accepted, address)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handed = True  # the loop closes it now
            await loop.connect_accepted_socket(
                lambda: factory(client), accepted, ssl=self._tls, ssl_handshake_timeout=_TLS_S
            )
        except ValueError as error:
            _log.warning("proxy %s: %s", address[0], error)
        except (OSError, EOFError, TimeoutError):
            pass  # whoever it was has gone, or does not speak TLS
        finally:
            if not handed:
                accepted.close()

    async def _client(self, accepted: socket.socket, address: Client) -> Client:
        if ip_address(plain(address[0])) not in self._proxies:
            return address
        fixed = await _exactly(accepted, FIXED)
        rest = await _exactly(accepted, length_of(fixed))
        return client_of(fixed, rest) or address


class ProxiedServer(uvicorn.Server):
    """A server whose connections come through a door."""

    def __init__(
        self, config: uvicorn.Config, proxies: Collection[IPv4Address | IPv6Address]
    ) -> None:
        super().__init__(config)
        self._proxies = proxies
        self._open = contextlib.AsyncExitStack()
        self.port = 0
        """Its TCP port, once it has started."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then accept connections at sockets, by default at the configured host."""
        await super().startup(sockets=[])
        config = self.config
        listeners = sockets or bound(config.host, config.port)
        self.port = listeners[0].getsockname()[1]
        if config.ssl is None:
            raise ValueError("expected a certificate")
        door = Door(self._proxies, config.ssl, MOST)
        for listener in listeners:
            await self._open.enter_async_context(door.serving(listener, self._connection))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and end."""
        del sockets
        await self._open.aclose()
        await super().shutdown(sockets=[])

    def _connection(self, client: Client) -> asyncio.Protocol:
        state = {"server_state": self.server_state, "app_state": self.lifespan.state}
        made = Connection(config=self.config, **state)
        made.behind = client
        return made


async def _exactly(accepted: socket.socket, size: int) -> bytes:
    """Read so many bytes and no more: what follows belongs to TLS."""
    loop, found = asyncio.get_running_loop(), b""
    while len(found) < size:
        part = await loop.sock_recv(accepted, size - len(found))
        if not part:
            raise EOFError
        found += part
    return found
