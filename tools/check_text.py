"""Fail where a file names a package registry's host or a path of the machine it was written on.

Such text works on one machine only: clients know their registry from their own configuration, and
paths start at the repository.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from repository import ROOT, files, report

# Written so that no pattern matches itself.
_FORBIDDEN = {
    "a registry's host": re.compile(
        r"\b(?:index|static)\.crates\.io|\bpypi\.org|\bpythonhosted\.org|\bregistry\.npmjs\.org"
        r"|\b(?:proxy|sum)\.golang\.org|\brepo1?\.maven\.|\bmaven\.org|\b(?:deb|security)\.debian\.org"
        r"|\bartifactor[y]\b",
        re.IGNORECASE,
    ),
    "a path of one machine": re.compile(r"(?<![\w.~})>*-])/(?:work|root|home)/[\w.-]"),
}


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Each forbidden thing in a text: line (from 1) and what it is."""
    for number, line in enumerate(text.splitlines(), start=1):
        for what, pattern in _FORBIDDEN.items():
            if found := pattern.search(line):
                yield number, f"{what}: {found.group()}"


def check(root: Path) -> list[str]:
    """All problems of the repository, each with its place. Files that are not text are skipped."""
    return [
        f"{path.relative_to(root)}:{line}: {problem}"
        for path in files(root)
        for line, problem in problems(_text(path))
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(report(check(ROOT), "no registry hosts, no paths of one machine"))
