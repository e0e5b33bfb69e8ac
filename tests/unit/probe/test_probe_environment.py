"""What a result depends on besides the workflow."""

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
    (tmp_path / "file").write_text("2")
    changed = environment.revision(tmp_path)
    assert changed is not None
    assert (changed.commit, changed.dirty) == (clean.commit, True)


def test_outside_of_a_checkout_there_is_no_revision(tmp_path: Path) -> None:
    assert environment.revision(tmp_path) is None


def test_versions_are_first_lines_and_what_is_absent_is_left_out(tmp_path: Path) -> None:
    daemon = tmp_path / "hawserd"
    daemon.write_text("#!/bin/sh\necho hawserd 9.9\necho more\n")
    daemon.chmod(0o755)
    found = environment.tool_versions(daemon)
    assert found["hawserd"] == "hawserd 9.9"
    assert "python:pydantic" in found
    assert "hawserd" not in environment.tool_versions(tmp_path / "absent")


def test_settings_that_this_kernel_lacks_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "net/ipv4").mkdir(parents=True)
    (tmp_path / "net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
    found = environment.kernel_settings(("net.ipv4.tcp_rmem", "net.nothing"), tmp_path)
    assert found == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
