"""A client of the controller's API: HTTP/1.1 and JSON over TLS, from the standard library."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from http.client import HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from hawser.control.link import SERVER_NAME

DEFAULT_PORT = 8443
_TIMEOUT = 30.0
_ANSWER_MAX = 16 * 1024 * 1024
_FIRST_ERROR = 400

Dial = Callable[[tuple[str, int], float], socket.socket]
"""Connects to host and port, within so many seconds."""


class ApiError(Exception):
    """The controller could not be asked, or refused."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        """Status code; None where there was no answer."""
        super().__init__(message)


def address_of(url: str) -> tuple[str, int]:
    """Give host and port of a controller's URL.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url if "//" in url else f"//{url}", scheme="https")
    if parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"found {url!r}, expected an address such as https://192.0.2.1:8443")
    return parts.hostname, parts.port or DEFAULT_PORT


def authority_of(host: str, port: int) -> str:
    """Give host and port as a URL has them: IPv6 in brackets (RFC 3986 section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def trusting(authority: bytes) -> ssl.SSLContext:
    """Trust the controller whose authority has this certificate, and nobody else.

    Raises:
        ValueError: it is no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=authority.decode())
    except (ssl.SSLError, ValueError) as error:
        raise ValueError("found no certificate in PEM form") from error
    return context


def trusting_anybody() -> ssl.SSLContext:
    """For the one question whose answer is checked by itself: which authority it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class ApiClient:
    """Asks a controller. Each request has a connection of its own."""

    def __init__(
        self,
        url: str,
        trust: ssl.SSLContext,
        secret: str | None = None,
        dial: Dial = socket.create_connection,
    ) -> None:
        """Take the controller's URL, whom to trust, and a session's token or an API key.

        Args:
            url: of the controller.
            trust: what its certificate is verified by.
            secret: token of a session, or API key.
            dial: connects, perhaps from another machine than this one.
        """
        self.host, self._port = address_of(url)
        self._trust = trust
        self._dial = dial
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 (JSON)
        """Send a request and give the answer's JSON; None where it has none.

        Raises:
            ApiError: there is no answer, or the request was refused.
        """
        where = authority_of(self.host, self._port)
        text = None if body is None else json.dumps(body)
        headers = self._headers | ({"Content-Type": "application/json"} if text else {})
        connection = _Connection(self.host, self._port, self._trust, self._dial)
        try:
            with contextlib.closing(connection):
                connection.request(method, path, text, headers)
                answer = connection.getresponse()
                status, content = answer.status, answer.read(_ANSWER_MAX)
        except (OSError, HTTPException) as error:
            raise ApiError(f"{where}: {error or type(error).__name__}") from error
        if status >= _FIRST_ERROR:
            raise ApiError(_reason(content, status), status)
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise ApiError(f"{where}: the answer is no JSON") from error


class _Connection(HTTPSConnection):
    """TLS to an address whose certificate says what it is rather than where."""

    def __init__(self, host: str, port: int, trust: ssl.SSLContext, dial: Dial) -> None:
        super().__init__(host, port, timeout=_TIMEOUT, context=trust)
        self._trust = trust
        self._dial = dial

    def connect(self) -> None:
        """Connect."""
        plain = self._dial((self.host, self.port), _TIMEOUT)
        self.sock = self._trust.wrap_socket(plain, server_hostname=SERVER_NAME)


def _reason(content: bytes, status: int) -> str:
    try:
        answer = json.loads(content)
        fields = [f"{each['field']}: {each['message']}" for each in answer.get("errors", ())]
        return "\n".join(fields) or str(answer["error"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"the controller answered {status}"
