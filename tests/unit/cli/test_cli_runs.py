"""`hawser runs`, and arguments that name several runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import synthetic
from hawser.cli import main
from hawser.store import run_id

Said = tuple[int, str, str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four runs, in the current directory."""
    numbers = itertools.count(1)
    monkeypatch.setattr(
        synthetic, "run_id", lambda workflow, at, _token: run_id(workflow, at, next(numbers))
    )
    for seed in range(4):
        synthetic.write(tmp_path / "runs", synthetic.quickstart(2), seed=seed)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def ids(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def hawser(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_tags_choose_runs(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    one, other, *_ = ids(folder)
    assert hawser(capsys, "runs", "tag", one, "new", "fast")[0] == 0
    assert hawser(capsys, "runs", "tag", other, "new")[0] == 0
    _, out, _ = hawser(capsys, "runs", "--tag", "new", "--tag", "fast", "--json")
    assert [run["run"] for run in json.loads(out)] == [one]
    assert hawser(capsys, "runs", "tag", one, "new", "--remove")[0] == 0
    _, out, _ = hawser(capsys, "query", "tag:new", "SELECT run FROM runs", "--json")
    assert json.loads(out) == [{"run": other}]
    _, out, _ = hawser(capsys, "query", "all", "SELECT count(*) AS n FROM trials", "--json")
    assert json.loads(out) == [{"n": 4 * 6}]


def test_sides_are_named_by_tags(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    names = ids(folder)
    for name in names[:3]:
        hawser(capsys, "runs", "tag", name, "old")
    code, out, _ = hawser(capsys, "compare", names[3], "--against", "tag:old", "--json")
    assert code == 0
    assert json.loads(out)["reference"] == sorted(names[:3])


def test_pruning_shows_first_and_removes_when_told(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = ids(folder)
    hawser(capsys, "runs", "note", before[0], "keep me")
    code, _, err = hawser(capsys, "runs", "prune", "--keep", "0")
    assert code == 0
    assert "3 runs would be removed" in err
    assert ids(folder) == before
    assert hawser(capsys, "runs", "prune", "--keep", "0", "--yes")[0] == 0
    assert ids(folder) == before[:1]


def test_an_archive_is_restored_elsewhere(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    name = ids(folder)[0]
    code, out, _ = hawser(capsys, "runs", "archive", name)
    assert code == 0
    digest, file = out.split()
    assert (len(digest), file) == (64, f"{name}.tar.gz")
    assert hawser(capsys, "runs", "restore", file, "--runs", "other")[0] == 0
    assert ids(folder.parent / "other") == [name]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("runs", "tag", "latest", "Bad Tag"), "found tag 'Bad Tag'"),
        (("runs", "tag", "nothing", "x"), "found run 'nothing'"),
        (("runs", "note", "latest", ""), "at least 1 character"),
        (("runs", "prune"), "give --days, --keep or --state"),
        (("runs", "prune", "--state", "running"), "found 'running'"),
        (("runs", "prune", "--keep", "-1"), "--keep"),
        (("runs", "restore", "nowhere.tar.gz"), "nowhere.tar.gz"),
        (("runs", "archive", "latest", "-o", "no/folder/x.tar.gz"), "No such file"),
        (("compare", "tag:none", "latest"), "tag:none"),
        (("compare", "latest", "--against", "latest"), "both sides"),
        (("query", "tag:none", "SELECT 1"), "tag:none"),
        (("run", "x.yaml", "--tag", "Bad"), "found tag 'Bad'"),
        (("report", "latest", "--export", "x", "--format", "json"), "cannot be combined"),
    ],
)
def test_mistakes_are_told_and_nothing_is_done(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    before = ids(folder)
    code, out, err = hawser(capsys, *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert "Traceback" not in err
    assert ids(folder) == before
