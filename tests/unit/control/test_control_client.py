"""The client against a real HTTP server on a Unix socket."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from hawser.control import client as client_module
from hawser.control.client import ControlError, DaemonClient, RefusedError
from hawser.control.https import address_of, authority_of
from hawser.overlay.config.base import Configuration

STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "role": "gateway",
    "branch": "b1",
    "uptime_s": 1.5,
    "ready": True,
    "news": {"from": "a newer daemon"},
    "peers": [
        {
            "branch": "b2",
            "up": True,
            "groups": [
                {"id": 0, "up": True, "subflows": 4, "reconnects": 1, "remote": "198.18.0.2:53248"},
                {"id": 1, "up": True, "queued_bytes": 0},
            ],
        }
    ],
}


class Api:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.put: Any = None
        self.pause = 0.0
        """Seconds until what is put is answered."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    state = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = state.answers[self.path]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            state.put = json.loads(self.rfile.read(int(self.headers["content-length"])))
            time.sleep(state.pause)
            self.do_GET()

        do_POST = do_PUT  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return "unix"

    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "s"), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture
def client(api: Api, tmp_path: Path) -> Iterator[DaemonClient]:
    del api
    with DaemonClient(tmp_path / "s") as client:
        yield client


def test_status_is_read_and_news_ignored(api: Api, client: DaemonClient) -> None:
    api.answers["/v1/status"] = (200, json.dumps(STATUS).encode())
    status = client.status()
    assert (status.branch, status.ready, status.connected) == ("b1", True, True)
    first, second = status.peers[0].groups
    assert (first.subflows, first.reconnects, first.remote) == (4, 1, "198.18.0.2:53248")
    assert second.subflows == 0


@pytest.mark.parametrize(
    ("ready", "up", "connected"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_connected_means_every_group_is_up(
    api: Api, client: DaemonClient, *, ready: bool, up: bool, connected: bool
) -> None:
    groups = [{"id": 0, "up": True}, {"id": 1, "up": up}]
    answer = STATUS | {"ready": ready, "peers": [{"branch": "b2", "up": True, "groups": groups}]}
    api.answers["/v1/status"] = (200, json.dumps(answer).encode())
    assert client.status().connected is connected


def test_configuration_counters_and_metrics(api: Api, client: DaemonClient) -> None:
    api.answers = {
        "/v1/config": (200, b'{"version": 1}'),
        "/v1/counters": (200, b'{"tun": {"read": {"packets": 3}}}'),
        "/metrics": (200, b"hawser_gateway_group_up 1\n"),
    }
    assert client.config(Configuration) == Configuration()
    assert client.counters()["tun"]["read"]["packets"] == 3
    assert client.metrics() == "hawser_gateway_group_up 1\n"
    client.configure(Configuration())
    assert api.put == {"version": 1}


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (422, '{"errors": [{"field": "peers[0].id", "found": 99, "expected": "1 to 15"}]}',
         r"PUT /v1/config: 422: peers\[0\]\.id: found 99, expected 1 to 15"),
        (404, '{"error": "no such page"}', "404: no such page"),
        (500, "<html>", "500: <html>"),
        (500, "", "500: no reason given"),
        (400, '{"errors": 3}', "400: "),
        (400, "[1]", r"400: \[1\]"),
    ],
)  # fmt: skip
def test_refusals_say_why(
    api: Api, client: DaemonClient, code: int, body: str, message: str
) -> None:
    api.answers["/v1/config"] = (code, body.encode())
    with pytest.raises(ControlError, match=message):
        client.configure(Configuration())


def test_a_verdict_is_taken_refused_or_not_judged(api: Api, client: DaemonClient) -> None:
    """Whoever has it keeps it while the sensor has a fault of its own."""
    order = {"target": {"source": "203.0.113.9"}, "by": "me"}
    for answer, block in ((b'{"block": 7}', 7), (b"", None)):
        api.answers["/v1/verdicts"] = (201, answer)
        assert client.verdict(order) == block
        assert api.put == order
    api.answers["/v1/verdicts"] = (409, b'{"error": "too many blocks"}')
    with pytest.raises(RefusedError) as refused:
        client.verdict(order)
    assert refused.value.reason == "too many blocks"
    for code, body in ((500, b""), (201, b'{"block": "x"}'), (201, b"{}")):
        api.answers["/v1/verdicts"] = (code, body)
        with pytest.raises(ControlError) as failed:
            client.verdict(order)
        assert not isinstance(failed.value, RefusedError)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"version": 1}', b"null"])
def test_answers_outside_the_contract_are_errors(
    api: Api, client: DaemonClient, body: bytes
) -> None:
    api.answers["/v1/status"] = (200, body)
    with pytest.raises(ControlError, match="GET /v1/status: unexpected answer"):
        client.status()


def test_an_endless_answer_is_not_read_to_its_end(
    api: Api, client: DaemonClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_ANSWER_MAX", 1000)
    api.answers["/metrics"] = (200, b"x" * 1_000_000)
    with pytest.raises(ControlError, match="longer than 1000 bytes"):
        client.metrics()


def test_a_silent_daemon_is_an_error_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_TIMEOUT", 0.1)
    with (
        socketserver.UnixStreamServer(str(tmp_path / "t"), socketserver.BaseRequestHandler),
        pytest.raises(ControlError, match="timed out"),
    ):
        DaemonClient(tmp_path / "t").status()


def test_a_configuration_may_take_longer(
    api: Api, client: DaemonClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_TIMEOUT", 0.1)
    api.pause, api.answers["/v1/config"] = 0.5, (204, b"")
    client.configure(Configuration())
    assert api.put == {"version": 1}


def test_no_daemon_is_an_error_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"none: GET /v1/status: .*No such file"):
        DaemonClient(tmp_path / "none").status()


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://192.0.2.1:8443", "192.0.2.1:8443"),
        ("https://[2001:db8::1]", "[2001:db8::1]:8443"),
        ("controller.example:9", "controller.example:9"),
    ],
)
def test_an_address_of_ipv6_is_written_in_brackets(url: str, authority: str) -> None:
    assert authority_of(*address_of(url)) == authority
