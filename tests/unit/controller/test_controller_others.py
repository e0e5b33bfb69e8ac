"""Statistics of several controllers, put together."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from controller_sample import Api, Clock
from hypothesis import given
from hypothesis import strategies as st

from hawser.controller.context import Context
from hawser.controller.directory import Directory
from hawser.controller.telemetry.others import Others, merged

_ROW = st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(-9, 9))
_PART = st.dictionaries(st.integers(0, 9), _ROW)


@given(st.lists(_PART, max_size=4))
def test_every_row_is_in_the_whole_and_in_order(parts: list[dict[int, Any]]) -> None:
    whole = merged(parts)
    assert [*whole] == sorted({at for part in parts for at in part})
    for part in parts:
        for at, (_, low, high) in part.items():
            assert whole[at][1] <= low
            assert whole[at][2] >= high
    for at, row in whole.items():
        owners = [part[at] for part in parts if at in part]
        assert len(owners) > 1 or row == owners[0]


class Other(BaseHTTPRequestHandler):
    """Another controller."""

    asked: ClassVar[list[tuple[str, dict[str, list[str]], str | None]]] = []
    answers: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.asked.append((parts.path, parse_qs(parts.query), self.headers["Authorization"]))
        body = json.dumps(self.answers[parts.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime.now(UTC))


@pytest.fixture
def both(context: Context, tmp_path: Path) -> Iterator[Api]:
    """The API of a controller that has another one, with a certificate of the same authority."""
    directory = Directory(tmp_path / "acme")
    server = HTTPServer(("127.0.0.1", 0), Other)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(directory.certificate, directory.key)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Other.asked.clear()
    url, gone = f"https://127.0.0.1:{server.server_port}", "https://127.0.0.1:9"
    object.__setattr__(context, "others", Others((gone, url), directory.authority.read_bytes()))
    yield Api(context).log_in()
    server.shutdown()
    thread.join()
    server.server_close()


HISTORY = "/v1/statistics/history?branch=b1&series=path/b2/0/0/rtt"


def test_a_question_is_asked_of_all_but_one_that_was_asked_of_this_one(both: Api) -> None:
    now = int(datetime.now(UTC).timestamp())
    rows = {"times": [now - 9, now - 5], "mean": [1, 2], "low": [1, 2], "high": [1, 3]}
    part = {"series": "path/b2/0/0/rtt", "unit": "ms"} | rows
    Other.answers["/v1/statistics/history"] = {"series": [part]}
    (found,) = both.get(HISTORY)["series"]
    assert found == part, "the one that is gone is left out"
    ((_, query, token),) = Other.asked
    assert token == both.headers["Authorization"]
    assert query["here"] == ["true"]
    assert query["series"] == ["path/b2/0/0/rtt"]
    assert both.get(HISTORY + "&here=true")["series"][0]["times"] == []
    assert len(Other.asked) == 1


def test_series_and_matrix_of_all(both: Api) -> None:
    pair = {"sender": "b1", "receiver": "b2", "class": "II", "bps": 8.0}
    Other.answers["/v1/statistics/matrix"] = {"seconds": 60, "pairs": [pair]}
    assert both.get("/v1/statistics/matrix")["pairs"] == [pair]
    series = {"branch": "b1", "series": "port/a/sent", "unit": "", "meaning": "", "labels": {}}
    Other.answers["/v1/statistics/series"] = [series]
    (found,) = both.get("/v1/statistics/series?branch=b1")
    assert (found["series"], found["unit"]) == ("port/a/sent", "bit/s")
