"""Limits of connections to the API: how many one source has, and how long a request's head takes.

uvicorn limits all connections together and closes one that is idle after a request. Without more,
connections that never send one would keep everybody out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hawser.controller.access.limit import source_of

MOST = 500
"""Connections in all."""


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    most_of_source: ClassVar[int] = 200
    """Connections of one address or IPv6 network; behind a proxy that does not say for whom they
    are, all are of its address."""
    head_s: ClassVar[float] = 10.0
    """Seconds until the head of a request has to be complete."""
    behind: tuple[str, int] | None = None
    """Address and port of the client, where a proxy has said them."""
    _of_source: ClassVar[Counter[str]] = Counter()
    _late: asyncio.TimerHandle | None = None
    _source = ""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (uvicorn's)
        """Wait for a request, unless the source has too many connections."""
        super().connection_made(transport)
        self.client = self.behind or self.client
        self._source = source_of(self.client[0] if self.client else "local")
        self._of_source[self._source] += 1
        if self._of_source[self._source] > self.most_of_source:
            transport.abort()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
        elif self._late is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        super().connection_lost(exc)
        self._forget_head()
        self._of_source[self._source] -= 1
        if not self._of_source[self._source]:
            del self._of_source[self._source]

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(self.head_s, self.transport.abort)

    def _forget_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
