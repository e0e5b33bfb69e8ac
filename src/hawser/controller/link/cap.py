"""A limit of connections before TLS, where nobody knows yet who they are.

A gateway's port is open to everybody. A connection is counted when it is accepted; TLS begins
only if there are not too many of its source, and not too many that have shown no certificate.
"""

from __future__ import annotations

import asyncio
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
    """Begins TLS on a connection if the cap allows it, then leaves it to another protocol."""

    def __init__(self, inner: asyncio.Protocol, tls: ssl.SSLContext, cap: Cap) -> None:
        self._inner, self._tls, self._cap = inner, tls, cap
        self._early: list[bytes] = []
        """What came before the other protocol had its transport."""
        self._task: asyncio.Task[None] | None = None
        self._lost = False

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (any transport)
        """Begin TLS, or end the connection."""
        peer = transport.get_extra_info("peername")
        source = source_of(str(peer[0])) if peer else "local"
        if not self._cap.enter(source):
            transport.abort()
            return
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._begin(transport, source))

    async def _begin(self, transport: asyncio.Transport, source: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            made = await loop.start_tls(
                transport, self, self._tls, server_side=True, ssl_handshake_timeout=_TLS_S
            )
        except OSError:  # ssl.SSLError too: whoever it was has no certificate of ours
            made = None
        finally:
            self._cap.leave(source)
        if made is None or self._lost or made.is_closing():
            transport.abort()
            return
        made.set_protocol(self._inner)
        self._inner.connection_made(made)
        for data in self._early:
            self._inner.data_received(data)
        self._early.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended before the other protocol had it."""
        del exc
        self._lost = True

    def data_received(self, data: bytes) -> None:
        """Keep what came with the end of the handshake."""
        self._early.append(data)
