"""Statistics as the API, Prometheus and remote write give them."""

from __future__ import annotations

import json
import math
import re
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from controller_sample import Api, Clock

from hawser.controller.context import Context
from hawser.controller.jobs.remote_write import RemoteWrite, Target
from hawser.controller.telemetry.latest import Statistics
from hawser.controller.telemetry.query import REACH, resolution_for
from hawser.spec.units import Duration
from lab.waiting import until

NAMES = ("path/b2/0/1/rtt", "class/b2/I/sent", "class/b2/II/sent", "new/thing")
RTT = NAMES[0]
_VICTORIA = shutil.which("victoria-metrics")


def fill(context: Context, clock: Clock, seconds: int = 120) -> int:
    """Two branches report once a second; gives the last second."""
    store = context.statistics
    for _ in range(seconds):
        clock.turn(seconds=1)
        now = store.now()
        for number, branch in ((1, "b1"), (3, "b3")):
            values = (20.0 + now % 2, 1e6 * number, 0.0, math.nan)
            store.write(store.layout(branch, NAMES), now, values)
            found = Statistics(branch, "0" * 16, 0, NAMES, now, now, values, lost=2)
            context.latest.put(number, found)
    return store.now()


def history(api: Api, **asked: object) -> str:
    defaults: dict[str, object] = {"branch": "b1", "series": RTT}
    return f"/v1/statistics/history?{urlencode(defaults | asked, doseq=True)}"


def test_history(api: Api, context: Context, clock: Clock) -> None:
    end = fill(context, clock)
    found = api.get(history(api, points=3600))
    assert found["resolution"] == 1
    (rows,) = found["series"]
    assert rows["unit"] == "ms"
    assert rows["times"][-1] == end
    assert set(rows["mean"]) == {20, 21}
    assert rows["low"] == rows["mean"] == rows["high"]
    found = api.get(history(api, series=[RTT, NAMES[1]], resolution="1min"))
    assert [each["series"] for each in found["series"]] == [RTT, NAMES[1]]
    assert found["series"][0]["mean"][1] == 20.5
    assert api.get(history(api, series="path/b2/7/7/rtt"))["series"][0]["times"] == []
    assert api.get(history(api, branch="gone"))["series"][0]["times"] == []
    later = datetime.fromtimestamp(end + 7200, UTC).isoformat()
    found = api.get(history(api, since=later, until="9999-12-31T00:00:00Z"))
    assert found["series"][0]["times"] == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"branch": "B2"}, 422),
        ({"series": "x"}, 422),
        ({"series": "path/b2/0/1/rtt'; --"}, 422),
        ({"series": [f"a/{n}" for n in range(17)]}, 422),
        ({"since": "2026-01-01"}, 422),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, 422),
        ({"resolution": "2s"}, 422),
        ({"points": 0}, 422),
        ({"since": "2025-12-05T00:00:00Z", "resolution": "1min"}, 422),
    ],
)
def test_questions_that_are_refused(
    api: Api, context: Context, clock: Clock, asked: dict[str, object], code: int
) -> None:
    fill(context, clock, 2)
    answer = api.call("GET", history(api, **asked))
    assert answer.status_code == code, answer.text


def test_resolutions() -> None:
    now = 10**9
    assert resolution_for(now - 600, now, now, 600) == 1
    assert resolution_for(now - 600, now, now, 599) == 60
    assert resolution_for(now - 4000, now - 3900, now, 600) == 60
    assert resolution_for(now - 7 * 86400, now, now, 10080) == 60
    assert resolution_for(now - 7 * 86400, now, now, 500) == 3600
    assert resolution_for(now - REACH[60] - 1, now, now, 10**9) == 3600
    assert resolution_for(0, now, now, 1) == 3600


def test_series_and_matrix(api: Api, context: Context, clock: Clock) -> None:
    fill(context, clock)
    found = {each["series"]: each for each in api.get("/v1/statistics/series?branch=b1")}
    assert set(found) == set(NAMES)
    assert found[RTT]["labels"] == {"peer": "b2", "group": "0", "member": "1"}
    assert found["new/thing"]["unit"] == ""
    assert api.get("/v1/statistics/matrix")["pairs"] == [
        {"sender": "b1", "receiver": "b2", "class": "I", "bps": 1e6},
        {"sender": "b3", "receiver": "b2", "class": "I", "bps": 3e6},
    ]
    clock.turn(hours=1)
    assert api.get("/v1/statistics/matrix")["pairs"] == []


def test_prometheus(api: Api, context: Context, clock: Clock) -> None:
    fill(context, clock)
    answer = api.call("GET", "/v1/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert 'hawser_path_rtt_ms{branch="b1",peer="b2",group="0",member="1"} 20' in lines
    assert 'hawser_class_sent_bps{branch="b3",peer="b2",class="I"} 3000000' in lines
    assert 'hawser_gateway_reports_lost_total{branch="b1"} 2' in lines
    comment, sample = r"# (HELP|TYPE) \w+ .+", r'\w+\{(\w+="[^"\\]*",?)+\} [-0-9.e+]+'
    assert all(re.fullmatch(f"{comment}|{sample}", line) for line in lines)
    clock.turn(seconds=60)
    text = api.call("GET", "/v1/metrics").text
    assert "rtt" not in text
    assert 'hawser_gateway_report_age_seconds{branch="b1"} 60' in text
    assert Api(context).call("GET", "/v1/metrics").status_code == 401


def test_statistics_of_other_branches_are_not_shown(
    api: Api, context: Context, clock: Clock
) -> None:
    fill(context, clock)
    api.do("PUT", "/v1/roles/one", {"permissions": ["read"], "branches": ["b1"]})
    one = api.as_new("one")
    assert one.get(history(one))["series"][0]["times"]
    for path in (history(one, branch="b3"), "/v1/statistics/series?branch=b3"):
        assert one.call("GET", path).status_code == 404
    assert {each["sender"] for each in one.get("/v1/statistics/matrix")["pairs"]} == {"b1"}
    assert 'branch="b3"' not in one.call("GET", "/v1/metrics").text


class Receiver(BaseHTTPRequestHandler):
    """Takes remote writes, or refuses them."""

    bodies: list[bytes] = []
    tokens: list[str] = []
    answer = 204
    location = ""

    def do_GET(self) -> None:
        self.tokens.append(self.headers.get("Authorization", ""))
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Encoding"] == "snappy"
        self.tokens.append(self.headers.get("Authorization", ""))
        if self.answer == 204:
            self.bodies.append(body)
        self.send_response(self.answer)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[tuple[type[Receiver], str]]:
    class Mine(Receiver):
        bodies: list[bytes] = []
        tokens: list[str] = []

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mine)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Mine, f"http://127.0.0.1:{server.server_port}/write"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_remote_writes_are_sent_until_taken(context: Context, clock: Clock, tmp_path: Path) -> None:
    with receiving() as (receiver, url):
        target = Target(url=url, every=Duration(15))
        sender = RemoteWrite(target, context.statistics, tmp_path / "sent")
        fill(context, clock, 30)
        assert sender.send() == 1
        fill(context, clock, 30)
        receiver.answer = 503
        with pytest.raises(OSError, match="503"):
            sender.send()
        fill(context, clock, 30)
        receiver.answer = 204
        again = RemoteWrite(target, context.statistics, tmp_path / "sent")  # after a restart
        assert again.send() == 4
        assert again.send() == 0
        receiver.answer = 400  # what is refused for good is not sent for ever
        fill(context, clock, 15)
        assert again.send() == 1
        assert again.send() == 0
        assert len(receiver.bodies) == 5
    fill(context, clock, 15)
    with pytest.raises(OSError):  # noqa: PT011 (nobody is there)
        again.send()


def test_a_token_is_not_sent_on_to_another_server(
    context: Context, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    fill(context, clock, 30)
    with receiving() as (elsewhere, other), receiving() as (receiver, url):
        receiver.answer, receiver.location = 302, other
        target = Target(url=url, bearer_file=tmp_path / "token")
        sender = RemoteWrite(target, context.statistics, tmp_path / "sent")
        with pytest.raises(OSError, match="302"):
            sender.send()
        assert receiver.tokens == ["Bearer secret"]
        assert elsewhere.tokens == []
        receiver.answer = 204
        assert sender.send() == 1, "nothing was lost"


@pytest.mark.parametrize("content", [b"", b"x", b"[]", b"{}", b'{"sent": null}', b'{"sent": "x"}'])
def test_a_damaged_memory_means_the_last_hour(
    context: Context, clock: Clock, tmp_path: Path, content: bytes
) -> None:
    fill(context, clock, 40)
    (tmp_path / "sent").write_bytes(content)
    with receiving() as (receiver, url):
        RemoteWrite(Target(url=url), context.statistics, tmp_path / "sent").send()
        assert len(receiver.bodies) == 2


@pytest.mark.skipif(_VICTORIA is None, reason="VictoriaMetrics (Debian victoria-metrics) lacks")
def test_victoria_metrics_takes_them(context: Context, tmp_path: Path) -> None:
    assert _VICTORIA
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = (f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={tmp_path / 'data'}")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([_VICTORIA, *options], stdout=log, stderr=log)
    try:
        until(lambda: ask(f"{url}/health") == b"OK", "it answers")
        now = datetime.now(UTC)
        clock = context.clock
        assert isinstance(clock, Clock)
        clock.now = now.replace(microsecond=0)
        clock.turn(seconds=-120)
        fill(context, clock, 60)
        sender = RemoteWrite(
            Target(url=f"{url}/api/v1/write"), context.statistics, tmp_path / "sent"
        )
        (tmp_path / "sent").write_text(json.dumps({"sent": context.statistics.now() - 50}))
        assert sender.send() >= 2

        def there() -> bool:
            ask(f"{url}/internal/force_flush")
            query = 'hawser_path_rtt_ms{branch="b1",peer="b2",member="1"}'
            text = ask(f"{url}/api/v1/export?match[]={quote(query)}")
            values = [each for line in text.splitlines() for each in json.loads(line)["values"]]
            return len(values) >= 2 and all(20 < value < 21 for value in values)

        until(there, "the values are there")
    finally:
        process.terminate()
        process.wait(30)


def ask(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 (of the test)
            content: bytes = answer.read()
            return content
    except OSError:
        return b""
