"""`hawser controller paths`, from the answers of a controller."""

from __future__ import annotations

from typing import Any

import pytest

from hawser.cli import paths, remote

AUTOMATIC = {
    "automatic": True,
    "pairs": [
        {"branches": ["b1", "b2"], "paths": [], "demanded": 2e6, "carries": 4e6, "best": None}
    ],
    "tunnels": [],
    "waiting": "",
    "error": None,
}
TUNNEL = {
    "ports": ["b1.a", "b2.b"],
    "time": "2026-01-02T03:04:05Z",
    "available": 9.87e6,
    "low": 8e6,
    "high": 12e6,
}


class Answering:
    """Stands for the connection to a controller."""

    def __init__(self, found: object) -> None:
        self.found = found

    def ask(self, *_: object) -> object:
        return self.found


def shown(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(remote, "client", lambda *_: Answering(found))
    paths.paths()
    return capsys.readouterr().out


def test_what_trains_found_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(AUTOMATIC | {"tunnels": [TUNNEL]}, monkeypatch, capsys)
    (row,) = (line for line in text.splitlines() if "b1.a>b2.b" in line)
    assert "9.87" in row
    assert "8 to 12" in row
    assert "direct" in text


def test_nothing_is_said_of_trains_where_none_found_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "trains" not in shown(AUTOMATIC, monkeypatch, capsys)
