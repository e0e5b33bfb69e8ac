"""Switches on other machines, which connect over TLS and are known by their certificates.

TLS ends here, in a thread of its own: os-ken reads and writes a connection in two threads, which a
TLS connection does not allow. It gets one end of a pair of sockets instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Collection
from typing import Any, Final

from hawser.control.tasks import until_first
from hawser.overlay.config.openflow import Listen

Hand = Callable[[socket.socket, str], None]
"""Takes a switch's connection, and the name of the switch."""

_HANDSHAKE_S: Final = 10
_PIECE: Final = 1 << 16
_EACH: Final = 4
"""Connections of one switch at a time; it has one, and while it reconnects perhaps two."""

_log = logging.getLogger(__name__)


class Listener:
    """Accepts switches."""

    def __init__(self, listen: Listen, names: Callable[[], Collection[str]], hand: Hand) -> None:
        """Take where to listen, what gives the names of switches, and what takes a connection."""
        self._listen, self._names, self._hand = listen, names, hand
        self._open: dict[str, int] = {}

    def run(self) -> None:
        """Serve until the process ends."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        listen = self._listen
        server = await asyncio.start_server(
            self._accepted,
            str(listen.address),
            listen.port,
            ssl=context(listen),
            ssl_handshake_timeout=_HANDSHAKE_S,
        )
        async with server:
            await server.serve_forever()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = name_of(writer.get_extra_info("peercert"), self._names())
        if name is None or self._open.get(name, 0) >= _EACH:
            _log.warning("refused a switch whose certificate is %s", name or "of no switch here")
            writer.close()
            return
        self._open[name] = self._open.get(name, 0) + 1
        ours, theirs = socket.socketpair()
        try:
            inner_reader, inner_writer = await asyncio.open_connection(sock=ours)
            self._hand(theirs, name)
            await _relayed((reader, inner_writer), (inner_reader, writer))
        finally:
            self._open[name] -= 1


def context(listen: Listen) -> ssl.SSLContext:
    """Give what a controller asks of switches: a certificate of the same authority."""
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(listen.ca))
    made.minimum_version = ssl.TLSVersion.TLSv1_2  # Open vSwitch 3.1 has no TLS 1.3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(str(listen.certificate), str(listen.key))
    return made


def name_of(certificate: Any, names: Collection[str]) -> str | None:  # noqa: ANN401 (ssl's)
    """Give the switch that a checked certificate is for; None where it is for none of these."""
    entries = (certificate or {}).get("subjectAltName", ())
    found = {value for kind, value in entries if kind == "DNS"} & set(names)
    return min(found, default=None)


_Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _relayed(*ways: _Way) -> None:
    """Copy bytes both ways until one end closes."""
    try:
        await until_first(*(_copy(*way) for way in ways))
    finally:
        for _, writer in ways:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
