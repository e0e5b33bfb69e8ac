"""What the checks know about the repository."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def files(root: Path = ROOT, suffixes: Collection[str] = ()) -> list[Path]:
    """Files that are in git or will be, those that git ignores left out; sorted.

    With `suffixes` only files that end so (".py").

    Raises:
        subprocess.CalledProcessError: `root` is no git repository.
    """
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*command, "--exclude-standard"], capture_output=True, text=True, check=True
    ).stdout
    found = (root / name for name in set(listed.split("\0")) if name)
    return sorted(
        path for path in found if path.is_file() and (not suffixes or path.suffix in suffixes)
    )


def report(problems: Collection[str], fine: str) -> int:
    """Print the problems, or that all is fine; the exit code."""
    for problem in problems:
        print(problem)
    if not problems:
        print(fine)
    return 1 if problems else 0
