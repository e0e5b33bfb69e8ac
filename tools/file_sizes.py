"""Fail on files of over 600 lines of code, and functions of over 50 (Rust, Python) or 40 (C).

Lines of code are lines that are neither blank nor comment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import lizard

from repository import ROOT, files, report

_SUFFIXES = (".rs", ".py", ".c", ".h")
FILE_LIMIT, FUNCTION_LIMIT, C_FUNCTION_LIMIT = 600, 50, 40


@dataclass(frozen=True)
class Function:
    """A function: its first line and its lines of code."""

    name: str
    line: int
    lines: int


@dataclass(frozen=True)
class Source:
    """A source file and its functions."""

    path: str
    lines: int
    functions: tuple[Function, ...]


def measure(path: Path, root: Path) -> Source:
    """Lines of code of a file and its functions."""
    found = lizard.analyze_file(str(path))
    functions = tuple(Function(f.name, f.start_line, f.nloc) for f in found.function_list)
    return Source(str(path.relative_to(root)), found.nloc, functions)


def long_functions(sources: Sequence[Source]) -> list[str]:
    """Functions beyond the limit, longest first."""
    found = [(f, s.path) for s in sources for f in s.functions if f.lines > _limit(s.path)]
    found.sort(key=lambda pair: -pair[0].lines)
    return [f"{path}:{f.line}: {f.name} has {f.lines} lines of code" for f, path in found]


def _limit(path: str) -> int:
    return C_FUNCTION_LIMIT if path.endswith((".c", ".h")) else FUNCTION_LIMIT


def long_files(sources: Sequence[Source]) -> list[str]:
    """Files beyond the limit, longest first."""
    found = sorted((s for s in sources if s.lines > FILE_LIMIT), key=lambda s: -s.lines)
    return [f"{s.path}: {s.lines} lines of code, at most {FILE_LIMIT}" for s in found]


def summary(sources: Sequence[Source]) -> str:
    """How long files and functions are in all."""
    lengths = [f.lines for s in sources for f in s.functions] or [0]
    within = sum(length <= FUNCTION_LIMIT for length in lengths) / len(lengths)
    return (
        f"{len(sources)} files, the longest {max((s.lines for s in sources), default=0)} lines of "
        f"code; {len(lengths)} functions, median {median(lengths):g}, {within:.1%} within "
        f"{FUNCTION_LIMIT}"
    )


def main() -> int:
    """Print the report; the exit code."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    sources = [measure(path, ROOT) for path in files(ROOT, _SUFFIXES)]
    return report(long_files(sources) + long_functions(sources), summary(sources))


if __name__ == "__main__":
    sys.exit(main())
