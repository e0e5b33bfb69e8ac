"""`hawser controller statistics`: what is asked of a controller, and the tables."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hawser.cli import remote
from hawser.cli.main import main

LATEST = {
    "path/b2/0/1/rate": 2.5e6,
    "path/b2/0/1/rtt": 20.25,
    "path/b2/0/1/loss": 0.015,
    "class/b2/I/sent": 1.0,
}
ANSWERS: dict[str, Any] = {
    "/v1/gateways": [
        {"id": 1, "branch": "b1", "connected": True},
        {"id": 2, "branch": "b2", "connected": False},
    ],
    "/v1/gateways/1/statistics": {"values": LATEST},
    "/v1/statistics/matrix": {
        "seconds": 60,
        "pairs": [{"sender": "b1", "receiver": "b2", "class": "I", "bps": 1234567.0}],
    },
    "/v1/statistics/series": [{"series": "path/b2/0/1/rtt", "unit": "ms", "meaning": "Time"}],
    "/v1/statistics/history": {
        "resolution": 60,
        "series": [{"unit": "ms", "times": [0], "mean": [20.0], "low": [19.0], "high": [21.5]}],
    },
}


class Client:
    """Answers as a controller would, and remembers what it was asked."""

    asked: list[str] = []

    def ask(self, method: str, path: str) -> Any:  # noqa: ANN401 (JSON)
        assert method == "GET"
        self.asked.append(path)
        return ANSWERS[urlsplit(path).path]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    made.asked = []
    monkeypatch.setattr(remote, "client", lambda _url, _authority: made)
    return made


def hawser(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["controller", "statistics", *arguments])
    return ended.value.code


def test_paths(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser("paths") == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if "b2" in line)
    assert row.split()[:6] == ["b1", "b2", "0", "1", "2.50", "20.2"]
    assert "1.50" in row
    assert hawser("paths", "b1", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["rtt"] == 20.25
    assert hawser("paths", "b7", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_matrix_and_series(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser("matrix", "--seconds", "30") == 0
    assert "1.235" in capsys.readouterr().out
    assert client.asked == ["/v1/statistics/matrix?seconds=30"]
    assert hawser("series", "b1") == 0
    assert "path/b2/0/1/rtt" in capsys.readouterr().out


def test_history(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser("history", "b1", "path/b2/0/1/rtt", "--last", "7 d", "--rows", "9") == 0
    printed = capsys.readouterr()
    assert "1970-01-01 00:00:00" in printed.out
    assert "21.5" in printed.out
    assert "Rows of 60 s" in printed.err
    asked = parse_qs(urlsplit(client.asked[0]).query)
    assert asked["points"] == ["9"]
    assert asked["series"] == ["path/b2/0/1/rtt"]


def test_a_time_that_is_none(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert hawser("history", "b1", "path/b2/0/1/rtt", "--last", "soon") == 2
    assert "--last: found 'soon'" in capsys.readouterr().err
    assert client.asked == []
