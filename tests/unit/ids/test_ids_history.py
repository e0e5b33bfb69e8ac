"""Batches are merged without a record lost or read twice, wherever the merge is killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flow_records import random
from hawser.ids import history, records
from hawser.ids.errors import IdsError
from hawser.store import files


def write(folder: Path, number: int, count: int) -> None:
    batch = folder / f"batch={number}"
    batch.mkdir()
    pq.write_table(random(count, seed=number).rows, batch / "part-0.parquet")
    (batch / "_SUCCESS").touch()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(6):
        write(tmp_path, number, 10 + number)
    return tmp_path


def durations(folder: Path) -> list[float]:
    return sorted(records.read([folder]).column("duration").tolist())


def names(folder: Path) -> list[str]:
    return [each.path.name for each in history.batches(folder)]


def test_small_batches_become_one_and_the_newest_stays(folder: Path) -> None:
    before = durations(folder)
    assert history.merge(folder) == 5
    assert names(folder) == ["batch=0-4", "batch=5"]
    assert durations(folder) == before
    for number in (6, 7):
        write(folder, number, 3)
    assert history.merge(folder) == 3
    assert names(folder) == ["batch=0-6", "batch=7"]
    assert len(durations(folder)) == len(before) + 6


def test_folders_are_not_filled_beyond_their_size(folder: Path) -> None:
    history.merge(folder, rows=25)
    assert names(folder) == ["batch=0-1", "batch=2-3", "batch=4", "batch=5"]
    assert history.merge(folder, rows=25) == 0


def test_a_missing_batch_is_not_covered_up(folder: Path) -> None:
    (folder / "batch=2/_SUCCESS").unlink()  # Spark is writing it again
    history.merge(folder)
    assert names(folder) == ["batch=0-1", "batch=3-4", "batch=5"]
    assert (folder / "batch=2").exists()


@pytest.mark.parametrize("place", ["publish", "rmtree"])
def test_a_killed_merge_changes_nothing_for_readers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    before = durations(folder)
    killed = {"publish": (files, "publish"), "rmtree": (shutil, "rmtree")}[place]
    with monkeypatch.context() as patch:
        patch.setattr(*killed, _after(2 if place == "rmtree" else 0, getattr(*killed)))
        with pytest.raises(KeyboardInterrupt):
            history.merge(folder)
    assert durations(folder) == before
    history.merge(folder)
    assert durations(folder) == before
    assert names(folder) == ["batch=0-4", "batch=5"]
    assert sorted(path.name for path in folder.glob("*batch*")) == names(folder)


def _after(calls: int, function: Callable[..., object]) -> Callable[..., object]:
    left = iter(range(calls))

    def killed(*given: object, **named: object) -> object:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return function(*given, **named)

    return killed


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(IdsError, match="none"):
        history.merge(tmp_path / "none")
    assert history.merge(tmp_path) == 0
