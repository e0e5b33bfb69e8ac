"""A limit of connections before TLS, where nobody knows yet who they are.

A gateway's port is open to everybody. A connection is counted when it is accepted; TLS begins
only if there are not too many of its source, and not too many that have shown no certificate.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import Counter
from typing import Any, Final

from hawser.controller.access.limit import source_of

MOST_STRANGERS: Final = 2000
"""Connections that have not shown a certificate yet."""
MOST_OF_SOURCE: Final = 1000
"""Those of one address or IPv6 network: a thousand gateways behind one come back at once. A
handshake takes 3 ms, so all of them are done before the first has waited too long."""
_TLS_S: Final = 10.0


class Cap:
    """Counts connections that have not shown a certificate."""

    def __init__(self, most: int = MOST_STRANGERS, most_of_source: int = MOST_OF_SOURCE) -> None:
        self._most, self._most_of_source = most, most_of_source
        self._of_source = Counter[str]()

    @property
    def total(self) -> int:
        """How many there are."""
        return self._of_source.total()

    def enter(self, source: str) -> bool:
        """Count a connection, unless there are too many."""
        if self.total >= self._most or self._of_source[source] >= self._most_of_source:
            return False
        self._of_source[source] += 1
        return True

    def leave(self, source: str) -> None:
        """Count one less: it has ended, or shown a certificate."""
        self._of_source[source] -= 1
        if not self._of_source[source]:
            del self._of_source[source]


class Capped(asyncio.Protocol):
    """Begins TLS on a connection if the cap allows it, for another protocol.

    Not by `start_tls`: uvloop reads on while that begins, and TLS never hears what came first. The
    loop has the connection anew, under another descriptor, and begins TLS before it reads.
    """

    def __init__(self, inner: asyncio.Protocol, tls: ssl.SSLContext, cap: Cap) -> None:
        self._inner, self._tls, self._cap = inner, tls, cap
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (any transport)
        """Begin TLS, or end the connection."""
        peer = transport.get_extra_info("peername")
        source = source_of(str(peer[0])) if peer else "local"
        try:
            accepted = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        except OSError:  # no descriptor is left, or the connection has ended
            transport.abort()
            return
        transport.abort()  # the connection itself ends with its last descriptor
        if not self._cap.enter(source):
            accepted.close()
            return
        accepted.setblocking(False)
        self._task = asyncio.get_running_loop().create_task(self._begin(accepted, source))

    async def _begin(self, accepted: socket.socket, source: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._inner, accepted, ssl=self._tls, ssl_handshake_timeout=_TLS_S
            )
        except OSError:  # ssl.SSLError too: whoever it was has no certificate of ours
            accepted.close()
        finally:
            self._cap.leave(source)
