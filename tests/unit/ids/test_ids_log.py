"""A record log is read completely, once, and with what is missing counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flow_records import record
from hawser.ids.errors import IdsError
from hawser.ids.stream import log
from hawser.ids.stream.log import Position
from hawser.ids.stream.progress import News, Progress, news
from sensor_log import SensorLog


def drain(folder: Path, progress: Progress, size: int = log.CHUNK) -> tuple[Progress, list[News]]:
    found = []
    while True:
        chunk = log.read(folder, progress.position, size)
        if chunk.position == progress.position:
            return progress, found
        found.append(news(progress, chunk.lines, chunk.position, "b1"))
        progress = found[-1].progress


def seqs(found: list[News]) -> list[int]:
    return [json.loads(record.value)["seq"] for each in found for record in each.records]


@given(st.integers(1, 7), st.integers(2000, 5000))
def test_every_record_is_read_once_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: int, size: int
) -> None:
    sensor = SensorLog(tmp_path_factory.mktemp("log"), lines=lines)
    progress, read = Progress(), []
    for _ in range(3):
        for _ in range(5):
            sensor.add(record())
        progress, found = drain(sensor.folder, Progress.load(progress.dump()), size)
        read += seqs(found)
    assert read == list(range(1, 16))
    assert log.behind(sensor.folder, progress.position) == 0


def test_a_record_names_its_sensor(tmp_path: Path) -> None:
    sensor = SensorLog(tmp_path)
    sensor.add(record(srcip="2001:db8::1"), flow=42)
    _, found = drain(tmp_path, Progress())
    (only,) = found[-1].records
    assert only.flow == "8c1f00d2a94be617-42"
    assert json.loads(only.value)["sensor"] == "b1"
    assert json.loads(only.value)["srcip"] == "2001:db8::1"


def test_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    sensor = SensorLog(tmp_path)
    sensor.add(record())
    progress, _ = drain(tmp_path, Progress())
    sensor.add(record())
    whole = sensor.path.read_bytes()
    sensor.path.write_bytes(whole[:-20])
    assert drain(tmp_path, progress)[1] == []
    assert log.behind(tmp_path, progress.position) > 0
    sensor.path.write_bytes(whole)
    assert seqs(drain(tmp_path, progress)[1]) == [2]


def test_what_was_removed_unread_is_counted(tmp_path: Path) -> None:
    sensor = SensorLog(tmp_path, lines=2, files=2)
    for _ in range(2):
        sensor.add(record())
    progress, _ = drain(tmp_path, Progress())
    for _ in range(8):
        sensor.add(record())
    _, found = drain(tmp_path, progress)
    assert sum(each.lost for each in found) + len(seqs(found)) == 8
    assert sum(each.lost for each in found) > 0


@pytest.mark.parametrize("lines", [2, 100])
def test_a_log_that_was_emptied_is_read_from_its_beginning(tmp_path: Path, lines: int) -> None:
    first = SensorLog(tmp_path, lines=lines)
    for _ in range(7):
        first.add(record())
    progress, _ = drain(tmp_path, Progress())
    for file in tmp_path.iterdir():
        file.unlink()
    progress, found = drain(tmp_path, progress)
    assert found == []
    second = SensorLog(tmp_path, run="00")
    second.add(record())
    _, found = drain(tmp_path, progress)
    assert seqs(found) == [1]
    assert sum(each.lost for each in found) == 0


def test_a_new_run_begins_at_one(tmp_path: Path) -> None:
    first, second = SensorLog(tmp_path), SensorLog(tmp_path, run="00", seq=2)
    first.add(record())
    second._file = 1
    second.add(record())
    _, found = drain(tmp_path, Progress())
    assert [each.lost for each in found if each.lost] == [2]


def test_copies_and_other_lines_are_left_out(tmp_path: Path) -> None:
    sensor = SensorLog(tmp_path)
    sensor.add(record())
    good = sensor.path.read_text()
    for bad in ("", "{", "[]", "7", '{"schema": 2}', "\x00\xff", "[" * 5000, good.strip()):
        sensor.text(bad)
    for field, value in (("id", "x-1"), ("id", 7), ("seq", 0), ("seq", True), ("features", [1])):
        sensor.text(json.dumps(json.loads(good) | {field: value}))
    sensor.add(record())
    _, found = drain(tmp_path, Progress())
    assert seqs(found) == [1, 2]
    assert sum(each.copies for each in found) == 1
    assert sum(each.malformed for each in found) == 12


def test_a_line_without_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "records-0000000001.jsonl").write_bytes(b"x" * 10_000)
    progress, found = drain(tmp_path, Progress(), size=1000)
    assert progress.position == Position(1, 10_000)
    assert sum(each.malformed for each in found) == 10


def test_a_log_that_is_none(tmp_path: Path) -> None:
    assert log.read(tmp_path, Position()).lines == ()
    with pytest.raises(IdsError, match="no such folder"):
        log.read(tmp_path / "none", Position())
    with pytest.raises(ValueError, match="not a place"):
        Progress.load(b"{}")
