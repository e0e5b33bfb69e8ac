"""The audit log's hash chain: whatever is changed in it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.cli import remote
from hawser.cli.main import main
from hawser.controller.access.chain import ORIGIN, check, hash_of

_JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)


def log(values: list[Any]) -> list[dict[str, Any]]:
    """A log whose entries have these values."""
    made: list[dict[str, Any]] = []
    for number, value in enumerate(values, 1):
        entry = {
            "number": number,
            "time": "2026-01-01T00:00:00.000+00:00",
            "actor": "admin",
            "address": "192.0.2.1",
            "action": "test",
            "target": "x",
            "before": None,
            "after": value,
            "previous": made[-1]["hash"] if made else ORIGIN,
        }
        made.append(entry | {"hash": hash_of(entry)})
    return made


@given(st.lists(_JSON, min_size=1, max_size=5))
def test_a_log_is_whole_also_after_it_was_written_as_text(values: list[Any]) -> None:
    made = [json.loads(json.dumps(each)) for each in log(values)]
    found = check(made)
    assert (found.entries, found.broken) == (len(values), None)
    assert found.hash == made[-1]["hash"]


@given(st.data(), st.lists(_JSON, min_size=2, max_size=5))
def test_every_change_shows(data: st.DataObject, values: list[Any]) -> None:
    made = log(values)
    newest, number = made[-1]["hash"], data.draw(st.integers(0, len(made) - 1))
    match data.draw(st.sampled_from(["change", "remove", "forge", "repeat", "lack"])):
        case "change":
            made[number]["actor"] = "somebody"
        case "remove":
            del made[number]
        case "repeat":
            made.insert(number, made[number])
        case "lack":
            del made[number][data.draw(st.sampled_from(sorted(made[number])))]
        case "forge":  # with a hash of its own that fits
            made[number]["actor"] = "somebody"
            made[number]["hash"] = hash_of(made[number])
    found = check(made, newest)
    assert found.broken is not None or not found.anchored


@pytest.mark.parametrize("value", [None, 7, [], {"number": 1}, {"number": {}}])
def test_what_is_no_entry_is_broken(value: Any) -> None:  # noqa: ANN401 (JSON)
    assert check([value]).broken == 1


class Asked:
    """An API that has a log."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self._entries = entries

    def ask(self, _method: str, path: str) -> Any:  # noqa: ANN401 (JSON)
        if path == "/v1/audit/check":
            return {"altered_version": None}
        after = int(path.partition("after=")[2].partition("&")[0])
        return self._entries[after : after + 20]


def test_the_command_exports_and_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, file = log(list(range(45))), tmp_path / "log"
    monkeypatch.setattr(remote, "client", lambda *_: Asked(made))
    assert run("audit", "export", "-o", str(file)) == 0
    assert len(file.read_text().splitlines()) == 45
    for source in ([], [str(file)]):
        assert run("audit", "verify", *source, "--hash", made[10]["hash"]) == 0
        assert f"45 entries, all as they were written. Newest: {made[-1]['hash']}" in (
            capsys.readouterr().out
        )
        assert run("audit", "verify", *source, "--hash", "0123") == 1
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:7], lines[7].replace("admin", "other"), *lines[8:]]))
    capsys.readouterr()
    assert run("audit", "verify", str(file)) == 1
    assert capsys.readouterr().out == "Entry 8 is not as it was written.\n"
    file.write_text("{\n")
    assert run("audit", "verify", str(file)) == 2
    assert f"{file}:1: expected a line of JSON" in capsys.readouterr().err


def run(*arguments: str) -> int:
    """Exit code of `hawser controller`."""
    with pytest.raises(SystemExit) as ended:
        main(["controller", *arguments])
    return int(ended.value.code or 0)
