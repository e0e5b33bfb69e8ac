"""Fail where a commit that is still ours alone has a subject unlike `area: what changes`.

Commits that a remote has are history: nobody rewrites them. Where there is no git, or nothing is
new, nothing is checked.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from repository import ROOT, report

SINCE = "2026-11-24T18:30:00Z"
"""Subjects were written otherwise before."""
LONGEST = 72
_SUBJECT = re.compile(r"(?:[a-z0-9_./-]+|[A-Z]+(?:\.md)?): \S.*[^.\s]")
_GITS_OWN = ("Merge ", "Revert ", "fixup! ", "squash! ")


def problems(subjects: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Each subject that is not as it should be.

    Args:
        subjects: abbreviated hash and subject of each commit.
    """
    for commit, subject in subjects:
        if subject.startswith(_GITS_OWN):
            continue
        if not _SUBJECT.fullmatch(subject):
            yield f"{commit}: found {subject!r}, expected `area: what changes`, without a full stop"
        elif len(subject) > LONGEST:
            yield f"{commit}: found {len(subject)} characters, at most {LONGEST} fit: {subject}"


def new_commits(root: Path) -> list[tuple[str, str]]:
    """Commits of this branch that no remote has; none where `root` is no git repository."""
    command = ["git", "-C", str(root), "log", "--format=%h%x00%s", f"--since={SINCE}"]
    done = subprocess.run(
        [*command, "HEAD", "--not", "--remotes"], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return [(commit, subject) for commit, _, subject in (line.partition("\0") for line in lines)]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(report(list(problems(new_commits(ROOT))), "subjects of new commits name their area"))
