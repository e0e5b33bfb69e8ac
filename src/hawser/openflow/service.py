"""The controller's control API: HTTP/1.1 and JSON on a Unix socket, as for the other daemons.

GET /v1/status      connections of switches, and whether their flows are installed
GET /v1/counters    bytes and packets of every entry, drops by cause (the SDC's data)
GET /v1/config      the configuration in force
PUT /v1/config      replaces the entries of all switches; answered when they are installed
"""

from __future__ import annotations

import json
import logging
import socketserver
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import hawser
from hawser.openflow.state import State, Switch
from hawser.overlay.config.openflow import ControllerConfig

_BODY_MAX = 64 * 1024 * 1024
"""Largest request body, bytes. Full tables of 16 switches (7200 entries of 300 bytes) are 35 MB."""
_SETTLE = 4.0
"""Seconds to wait for a new configuration to be installed before answering; clients wait 5 s."""

_log = logging.getLogger(__name__)

_Answer = tuple[int, Mapping[str, Any]]


class Service(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves the control API."""

    daemon_threads = True

    def __init__(self, control: Path, state: State) -> None:
        control.unlink(missing_ok=True)  # left by a controller that was killed
        super().__init__(str(control), _Handler)
        self.state = state
        self.started = time.monotonic()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a failed request in one line: usually the client has disconnected."""
        _log.warning("control API: %s", sys.exception())


class _Handler(BaseHTTPRequestHandler):
    server: Service
    timeout = 5
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a read request."""
        questions: Mapping[str, Callable[[], Mapping[str, Any]]] = {
            "/v1/status": lambda: _status(self.server),
            "/v1/counters": lambda: _counters(self.server.state),
            "/v1/config": lambda: _config(self.server.state),
        }
        question = questions.get(self.path)
        self._answer(*_unknown(self.path) if question is None else (200, question()))

    def do_PUT(self) -> None:
        """Apply a configuration."""
        length = self.headers.get("Content-Length", "")
        if self.path != "/v1/config":
            self._answer(*_unknown(self.path))
        elif not length.isdecimal() or int(length) > _BODY_MAX:
            self._answer(413, {"error": f"expected Content-Length, at most {_BODY_MAX}"})
        else:
            self._answer(*_configure(self.server, self.rfile.read(int(length))))

    def _answer(self, status: int, document: Mapping[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.close_connection = True  # an unread body would be parsed as the next request
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """Name the client: a Unix socket has no address."""
        return "local"

    def log_message(self, *_: object) -> None:
        """Log nothing: requests are frequent and all alike."""


def _unknown(path: str) -> _Answer:
    return 404, {"error": f"no such resource: {path}"}


def _configure(server: Service, body: bytes) -> _Answer:
    deadline = time.monotonic() + _SETTLE
    try:
        config = ControllerConfig.model_validate_json(body)
        server.state.configure(config)
    except ValidationError as error:
        return 422, {"errors": [_field(each) for each in error.errors()]}
    except ValueError as error:
        return 422, {"errors": [{"field": "switches", "found": None, "expected": str(error)}]}
    server.state.wait(server.state.settled, deadline - time.monotonic())
    return 200, _status(server)


def _field(error: Any) -> Mapping[str, Any]:  # noqa: ANN401 (pydantic-core's own type)
    found = error["input"]
    return {
        "field": ".".join(map(str, error["loc"])),
        "found": found if isinstance(found, str | int | float | None) else None,
        "expected": error["msg"],
    }


def _status(server: Service) -> Mapping[str, Any]:
    return {
        "version": hawser.__version__,
        "role": "openflow",
        "uptime_s": round(time.monotonic() - server.started, 3),
        "ready": server.state.ready(),
        "master": role.master if (role := server.state.config.role) else None,
        "switches": [
            {
                "name": each.config.name,
                "connected": each.connected,
                "installed": each.installed,
                "flows": len(each.counts),
                "fault": each.fault,
            }
            for each in server.state.switches()
        ],
    }


def _config(state: State) -> Mapping[str, Any]:
    return state.config.model_dump(mode="json", by_alias=True)


def _counters(state: State) -> Mapping[str, Any]:
    return {"switches": [_counts(each) for each in state.switches()]}


def _counts(switch: Switch) -> Mapping[str, Any]:
    wanted, counts = switch.wanted, switch.counts
    packets: dict[tuple[str, str], int] = defaultdict(int)
    size: dict[tuple[str, str], int] = defaultdict(int)
    for cookie, flow in wanted.items():
        if cookie in counts:
            packets[flow.kind, flow.counter] += counts[cookie].packets
            size[flow.kind, flow.counter] += counts[cookie].bytes
    return {
        "name": switch.config.name,
        "entries": [
            {"name": name, "packets": packets[kind, name], "bytes": size[kind, name]}
            for kind, name in packets
            if kind == "entry"
        ],
        "drops": {name: packets[kind, name] for kind, name in packets if kind == "drop"},
        "icmp_errors": switch.errors.counts(),
    }
