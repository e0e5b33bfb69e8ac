"""Which revision of the program made a result."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hawser.probe import environment


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def test_a_revision_says_whether_files_differ(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert environment.revision(tmp_path) is None
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "x")
    clean = environment.revision(tmp_path)
    assert clean is not None
    assert len(clean.commit) == 40
    assert not clean.dirty
    (tmp_path / "docs" / "runs").mkdir(parents=True)
    (tmp_path / "docs" / "runs" / "earlier.tar.gz").write_text("results")
    assert environment.revision(tmp_path) == clean
    (tmp_path / "file").write_text("2")
    changed = environment.revision(tmp_path)
    assert changed is not None
    assert (changed.commit, changed.dirty) == (clean.commit, True)


def test_outside_of_a_checkout_there_is_no_revision(tmp_path: Path) -> None:
    assert environment.revision(tmp_path) is None
