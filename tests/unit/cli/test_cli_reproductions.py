"""`hawser reproductions`: the page, and what is said about runs that it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic
from hawser.cli import main

ROOT = Path(__file__).parents[3]


def hawser(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main.main(("reproductions", *arguments))
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_page_of_shipped_workflows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "docs" / "reproductions.md"
    target.parent.mkdir()
    workflows = ("--workflows", str(ROOT / "workflows"))
    assert hawser(capsys, "-o", str(target), *workflows) == (0, "", "")
    code, out, _ = hawser(capsys, *workflows)
    assert code == 0
    assert "### Table I: goodput over four paths" in out
    assert target.read_text().count("### ") == out.count("### ")


def test_runs_of_an_archive_are_linked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = synthetic.write(tmp_path / "elsewhere", synthetic.table1(3))
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main.main(("runs", "archive", str(path), "--results", "-o", "kept"))
    assert (tmp_path / "kept" / f"{path.name}.tar.gz").is_file()
    capsys.readouterr()
    code, out, _ = hawser(capsys, "kept", "--workflows", str(ROOT / "workflows"))
    assert code == 0
    assert f"[`{path.name}`](kept/{path.name}.tar.gz)" in out


def test_runs_that_reproduce_nothing_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write(tmp_path / "runs", synthetic.quickstart(2))
    monkeypatch.chdir(tmp_path)
    code, out, err = hawser(capsys, "all", "--workflows", str(ROOT / "workflows"))
    assert (code, err) == (0, "")
    assert "| `quickstart` |" in out.partition("## All runs")[2]


def test_runs_without_a_file_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write(tmp_path / "runs", synthetic.quickstart(2))
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "quic.yaml").symlink_to(ROOT / "workflows" / "quic-settings.yaml")
    monkeypatch.chdir(tmp_path)
    code, out, err = hawser(capsys, "all")
    assert code == 0
    assert out.startswith("# Reproductions")
    assert "left out, because no file has the workflow quickstart" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workflows", "nowhere"), "nowhere: found no workflow file"),
        (("-o", "no/such/folder.md", "--workflows", str(ROOT / "workflows")), "no/such/folder.md"),
        (("unknown",), "found run 'unknown'"),
    ],
)
def test_bad_input_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = hawser(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_the_page_in_docs_is_what_the_results_there_give(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("workflows", "docs/runs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    assert hawser(capsys, "docs/runs", "-o", "docs/reproductions.md")[0] == 0
    made = (tmp_path / "docs" / "reproductions.md").read_text()
    assert made == (ROOT / "docs" / "reproductions.md").read_text(), "run `make reproductions`"
