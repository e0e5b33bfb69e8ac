"""Client of a daemon's control API: HTTP/1.1 and JSON over its Unix socket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from hawser.control.model import FieldError, Status, WanCounters

_TIMEOUT = 5.0
"""Seconds that a daemon may take for an answer; it needs milliseconds."""

_ANSWER_MAX = 16 * 1024 * 1024
"""Bytes of an answer that are read at most."""

T = TypeVar("T")

_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_STATUS: TypeAdapter[Status] = TypeAdapter(Status)
_ERRORS = TypeAdapter(tuple[FieldError, ...])


class ControlError(Exception):
    """A daemon could not be asked, refused, or answered what is not in the contract."""


class DaemonClient:
    """Asks and configures one `hawserd`. A context manager; safe to share by threads."""

    def __init__(self, socket: Path) -> None:
        """Connect lazily to the control socket `socket` (at most 107 bytes long)."""
        self._socket = socket
        transport = httpx.HTTPTransport(
            uds=str(socket), verify=False
        )  # no TLS here; loading CA certificates costs 20 ms
        self._http = httpx.Client(
            transport=transport, base_url="http://daemon", timeout=_TIMEOUT, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def status(self) -> Status:
        """State of the daemon, and of a gateway's connections.

        Raises:
            ControlError: as all methods here.
        """
        return self._get("/v1/status", _STATUS)

    def counters(self) -> dict[str, Any]:
        """Bytes, packets and drops by cause, of every part of the daemon."""
        return self._get("/v1/counters", _OBJECT)

    def wan_counters(self) -> WanCounters:
        """Packets, drops and lateness of a WAN emulator."""
        return self._get("/v1/counters", TypeAdapter(WanCounters))

    def config(self) -> dict[str, Any]:
        """The configuration in force (schemas/ROLE-config.schema.json)."""
        return self._get("/v1/config", _OBJECT)

    def configure(self, config: Mapping[str, object]) -> None:
        """Put a whole new configuration in force; what stays the same keeps its state.

        Raises:
            ControlError: it is not valid, with every field that is wrong; nothing has changed.
        """
        self._request("PUT", "/v1/config", json=dict(config))

    def metrics(self) -> str:
        """Counters in Prometheus' text format."""
        return self._request("GET", "/metrics").decode()

    def _get(self, path: str, shape: TypeAdapter[T]) -> T:
        body = self._request("GET", path)
        try:
            return shape.validate_json(body)
        except ValidationError as error:
            raise ControlError(f"{self._socket}: GET {path}: unexpected answer: {error}") from error

    def _request(self, method: str, path: str, *, json: dict[str, object] | None = None) -> bytes:
        where = f"{self._socket}: {method} {path}"
        try:
            with self._http.stream(method, path, json=json) as response:
                body = _read(response, where)
        except (httpx.HTTPError, OSError) as error:
            raise ControlError(f"{where}: {error or type(error).__name__}") from error
        if response.is_error:
            raise ControlError(f"{where}: {response.status_code}: {_reason(body)}")
        return body


def _read(response: httpx.Response, where: str) -> bytes:
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _ANSWER_MAX:
            raise ControlError(f"{where}: the answer is longer than {_ANSWER_MAX} bytes")
    return bytes(body)


def _reason(body: bytes) -> str:
    """What an error answer says: `{"error": ...}` or `{"errors": [...]}`."""
    try:
        answer = _OBJECT.validate_json(body)
        if "errors" in answer:
            return "; ".join(map(str, _ERRORS.validate_python(answer["errors"])))
        return str(answer["error"])
    except (ValidationError, KeyError):
        return body[:200].decode(errors="replace") or "no reason given"
