"""Jars are used only if they are those that were locked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hawser.ids.cluster import jars
from hawser.ids.errors import IdsError, Lacking


def test_jars_that_differ_from_their_lock_are_refused(tmp_path: Path) -> None:
    folder, lock = tmp_path / "jars", tmp_path / "kafka.sha256"
    folder.mkdir()
    (folder / "a.jar").write_bytes(b"a")
    lock.write_text(jars.lock_of(folder))
    jars.check(folder, lock)
    (folder / "a.jar").write_bytes(b"b")
    with pytest.raises(IdsError, match=r"a\.jar: is not as kafka\.sha256 says"):
        jars.check(folder, lock)
    (folder / "a.jar").write_bytes(b"a")
    (folder / "b.jar").write_bytes(b"b")
    with pytest.raises(IdsError, match=r"b\.jar"):
        jars.check(folder, lock)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Lacking, match="apt-get install openjdk-17-jre-headless"):
        jars.java()
