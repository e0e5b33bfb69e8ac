"""Client of a daemon's control API: HTTP/1.1 and JSON over its Unix socket."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from hawser.control.model import (
    FieldError,
    FunctionCounters,
    SensorStatus,
    Status,
    Trace,
    TrainAnswer,
    TrainRequest,
    WanCounters,
    WanQueues,
)
from hawser.overlay.config.base import Configuration

_TIMEOUT = 5.0
"""Seconds that a daemon may stay silent; it needs milliseconds."""
_CONFIGURE_TIMEOUT = 60.0
"""The same while it applies a configuration: one of 14 400 flow entries took more than 5 s on a
busy machine."""

_ANSWER_MAX = 16 * 1024 * 1024
"""Bytes of an answer that are read at most."""

T = TypeVar("T")
C = TypeVar("C", bound=Configuration)

_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_STATUS: TypeAdapter[Status] = TypeAdapter(Status)
_BLOCK: TypeAdapter[dict[str, int]] = TypeAdapter(dict[str, int])
_ERRORS = TypeAdapter(tuple[FieldError, ...])


class ControlError(Exception):
    """A daemon could not be asked, refused, or answered what is not in the contract."""


class RefusedError(ControlError):
    """A daemon has answered that it does not do what was asked."""

    def __init__(self, where: str, status: int, reason: str) -> None:
        """Say what was asked, the status of the answer, and the reason in it."""
        super().__init__(f"{where}: {status}: {reason}")
        self.reason = reason


class DaemonClient:
    """Asks and configures one `hawserd`.

    Every request has a connection of its own, so a daemon that was started again is no matter, and
    threads may share a client.
    """

    def __init__(self, control: Path) -> None:
        """Take the path of the control socket, at most 107 bytes long. Connects later."""
        self._control = control

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open between requests."""

    def status(self) -> Status:
        """State of the daemon, and of a gateway's connections.

        Raises:
            ControlError: as all methods here.
        """
        return self._get("/v1/status", _STATUS)

    def raw_status(self) -> dict[str, Any]:
        """Everything that the daemon says of its state."""
        return self._get("/v1/status", _OBJECT)

    def counters(self) -> dict[str, Any]:
        """Bytes, packets and drops by cause, of every part of the daemon."""
        return self._get("/v1/counters", _OBJECT)

    def wan_counters(self) -> WanCounters:
        """Packets, drops and lateness of a WAN emulator."""
        return self._get("/v1/counters", TypeAdapter(WanCounters))

    def wan_queues(self) -> WanQueues:
        """What went through the queues of a WAN emulator, and how much waits in them."""
        return self._get("/v1/queues", TypeAdapter(WanQueues))

    def function_counters(self) -> FunctionCounters:
        """Packets and drops of a part of service chains."""
        return self._get("/v1/counters", TypeAdapter(FunctionCounters))

    def sensor_status(self) -> SensorStatus:
        """Packets, flows and records of an intrusion detection sensor."""
        return self._get("/v1/ids", TypeAdapter(SensorStatus))

    def verdict(self, verdict: Mapping[str, Any]) -> int | None:
        """Have an intrusion detection sensor judge the verdict of another program.

        Gives the number of the block that was made; None if it had one already.

        Raises:
            RefusedError: it has no effect; the message says why.
        """
        answer = self._request("POST", "/v1/verdicts", json.dumps(verdict).encode())
        if not answer:
            return None
        try:
            return _BLOCK.validate_json(answer)["block"]
        except (ValidationError, KeyError) as error:
            where = f"{self._control}: POST /v1/verdicts"
            raise ControlError(f"{where}: unexpected answer: {error}") from error

    def start_trace(self, events: int) -> None:
        """Have a part of service chains tell what happens to packets, so many times."""
        self._request("PUT", "/v1/trace", json.dumps({"events": events}).encode())

    def trace(self) -> Trace:
        """What happened to packets since this was last asked."""
        return self._get("/v1/trace", TypeAdapter(Trace))

    def config(self, form: type[C]) -> C:
        """The configuration in force, in the form of the daemon's role."""
        return self._get("/v1/config", TypeAdapter(form))

    def configure(self, config: Configuration) -> None:
        """Put a whole new configuration in force; what stays the same keeps its state.

        Raises:
            ControlError: it is not valid, with every field that is wrong; nothing has changed.
        """
        body = config.model_dump_json().encode()
        self._request("PUT", "/v1/config", body, timeout=_CONFIGURE_TIMEOUT)

    def train(self, request: TrainRequest) -> TrainAnswer:
        """Have a gateway send a train of packets, and say when they were sent and received."""
        where = f"{self._control}: POST /v1/trains"
        body = self._request("POST", "/v1/trains", request.model_dump_json().encode())
        try:
            return TrainAnswer.model_validate_json(body)
        except ValidationError as error:
            raise ControlError(f"{where}: unexpected answer: {error}") from error

    def metrics(self) -> str:
        """Counters in Prometheus' text format."""
        return self._request("GET", "/metrics").decode()

    def _get(self, path: str, shape: TypeAdapter[T]) -> T:
        body = self._request("GET", path)
        try:
            return shape.validate_json(body)
        except ValidationError as error:
            raise ControlError(
                f"{self._control}: GET {path}: unexpected answer: {error}"
            ) from error

    def _request(
        self, method: str, path: str, body: bytes | None = None, *, timeout: float | None = None
    ) -> bytes:
        where = f"{self._control}: {method} {path}"
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            with contextlib.closing(_UnixConnection(self._control, timeout)) as connection:
                connection.request(method, path, body, headers)
                status, answer = _read(connection.getresponse())
        except (HTTPException, OSError) as error:
            raise ControlError(f"{where}: {error or type(error).__name__}") from error
        if len(answer) > _ANSWER_MAX:
            raise ControlError(f"{where}: the answer is longer than {_ANSWER_MAX} bytes")
        if status >= _FIRST_FAULT:
            raise ControlError(f"{where}: {status}: {_reason(answer)}")
        if status >= _FIRST_ERROR:
            raise RefusedError(where, status, _reason(answer))
        return answer


_FIRST_ERROR, _FIRST_FAULT = 400, 500
"""Status from which on the caller, and from which on the daemon made a mistake (RFC 9110)."""


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("gateway", timeout=_TIMEOUT if timeout is None else timeout)
        self._path = path

    def connect(self) -> None:
        """Connect; `close` closes the socket also when this fails."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _read(response: HTTPResponse) -> tuple[int, bytes]:
    """Status, and the body up to one byte more than it may have."""
    with response:
        return response.status, response.read(_ANSWER_MAX + 1)


def _reason(body: bytes) -> str:
    """What an error answer says: `{"error": ...}` or `{"errors": [...]}`."""
    try:
        answer = _OBJECT.validate_json(body)
        if "errors" in answer:
            return "; ".join(map(str, _ERRORS.validate_python(answer["errors"])))
        return str(answer["error"])
    except (ValidationError, KeyError):
        return body[:200].decode(errors="replace") or "no reason given"
