from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from check_commits import new_commits, problems


@pytest.mark.parametrize(
    "subject",
    [
        "tunnel: filter ACKs only at the tail of their flow (RFC 3449 5.2.1)",
        "overlay/sdwan: give the fabric a type",
        "README: show the quickstart's figure",
        "CONTRIBUTING.md: say how commits look",
        "Merge branch 'x'",
    ],
)
def test_subjects_that_are_fine(subject: str) -> None:
    assert not list(problems([("abc", subject)]))


@pytest.mark.parametrize(
    "subject",
    [
        "Let a thing be",
        "tunnel:",
        "tunnel: full stop.",
        "Tunnel: upper case",
        "a, b: two areas",
        "x: " + "y" * 80,
    ],
)
def test_subjects_that_are_not(subject: str) -> None:
    assert [problem[:4] for problem in problems([("abc", subject)])] == ["abc:"]


def test_commits_that_a_remote_has_are_history(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    assert new_commits(tmp_path) == []
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert [subject for _, subject in new_commits(tmp_path)] == ["first"]
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "area: second")
    assert [subject for _, subject in new_commits(tmp_path)] == ["area: second"]
