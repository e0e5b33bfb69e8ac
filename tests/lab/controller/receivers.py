"""Receivers of alarms: an HTTP server and an SMTP server, with certificates of their own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from hawser.pki.authority import Authority, pem
from hawser.pki.key import key_pem, new_key


class Certificates:
    """An authority, and a certificate of it for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        made, key = Authority.create("receivers", now, timedelta(days=1)), new_key()
        found = made.sign(
            key.public_key(), ["localhost", ip_address("127.0.0.1")], now, timedelta(days=1)
        )
        (folder / "receiver.pem").write_bytes(pem(found))
        (folder / "receiver.key").write_bytes(key_pem(key))
        self.authority = made.pem.decode()
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(folder / "receiver.pem", folder / "receiver.key")


@dataclass
class WebServer:
    """Takes webhooks over TLS."""

    certificates: Certificates
    status: int = 200
    before: Callable[[], None] = lambda: None
    """Called before each answer."""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    """Headers, in small letters, and body of each request."""

    def __post_init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.got.append((headers | {"path": self.path}, self.rfile.read(length)))
                outer.before()
                self.send_response(outer.status)
                if outer.status in range(300, 400):
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = self.certificates.server.wrap_socket(
            self._server.socket, server_side=True
        )
        self.url = f"https://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Mailbox:
    """An SMTP server that takes e-mail after STARTTLS and a login only."""

    def __init__(self, certificates: Certificates, *, starttls: bool = True) -> None:
        self.got: list[tuple[list[str], Message]] = []
        """Recipients and message."""
        self.refusals = 0
        """How many messages to refuse first."""
        options: dict[str, Any] = {}
        if starttls:
            options = {
                "tls_context": certificates.server,
                "require_starttls": True,
                "auth_required": True,
                "authenticator": self._authenticate,
            }
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()

        async def serve() -> None:
            connections: list[SMTP] = []

            def connected() -> SMTP:
                connections.append(SMTP(self, loop=self._loop, hostname="mail.example", **options))
                return connections[-1]

            made = await self._loop.create_server(connected, "127.0.0.1", 0)
            self.port: int = made.sockets[0].getsockname()[1]
            self._end = asyncio.Event()
            ready.set()
            await self._end.wait()
            made.close()
            for each in connections:
                for transport in (each.transport, each._original_transport):
                    if transport is not None:
                        transport.abort()
            await asyncio.sleep(0.05)

        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(serve(),))
        self._thread.start()
        assert ready.wait(60)

    def _authenticate(self, *arguments: object) -> AuthResult:
        good = arguments[-1] == LoginPassword(b"hawser", b"mail secret")
        return AuthResult(success=good, handled=False)

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.refusals:
            self.refusals -= 1
            return "451 come again later"
        self.got.append((envelope.rcpt_tos, message_from_bytes(envelope.content)))
        return "250 taken"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
