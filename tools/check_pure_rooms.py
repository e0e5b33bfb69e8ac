"""Fail on a clock, socket, sleep, file or unseeded randomness in a pure room (ARCHITECTURE.md).

Rust: wire, meter, multipath, impair, flowmeter, trees.
Python: hawser.spec, hawser.overlay, hawser.stats, hawser.optimise.
What a pure room computes depends on its arguments alone, so a test on virtual time tests it all.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from repository import ROOT, files, report
from rust_source import code

RUST = tuple(
    f"crates/{name}/src" for name in ("wire", "meter", "multipath", "impair", "flowmeter", "trees")
)
PYTHON = tuple(f"src/hawser/{name}" for name in ("spec", "overlay", "stats", "optimise"))

Found = Iterator[tuple[int, str]]

_RUST_FORBIDDEN = re.compile(
    r"\bInstant::now\b|\bSystemTime\b|\.elapsed\(\)"
    r"|\b(?:Tcp|Udp|Unix)(?:Stream|Listener|Socket|Datagram)\b|\bToSocketAddrs\b"
    r"|\bthread::\w+|\bstd::(?:fs|env|process|os)\b|\bFile::\w+|\bfs::\w+"
    r"|\b(?:tokio|mio|socket2|libc|nix|rustix)::"
    r"|\bthread_rng\b|\brand::r(?:ng|andom)\b|\bfrom_(?:entropy|os_rng)\b|\bOsRng\b|\bgetrandom\b"
    r"|\b(?:e?print(?:ln)?|dbg)!"
)

_MODULES = re.compile(
    r"asyncio|ctypes|http|httpx|multiprocessing|os|psutil|pyroute2|requests|secrets|select|shutil"
    r"|signal|socket|ssl|subprocess|sys|tempfile|threading|time|urllib|uuid"
)
_FILES = re.compile(
    r"glob|iterdir|mkdir|open|read_bytes|read_text|rglob|unlink|write_bytes|write_text"
)
_CLOCKS = frozenset(
    f"datetime.{name}" for name in ("datetime.now", "datetime.utcnow", "datetime.today")
) | {"datetime.date.today"}
_RESAMPLING = frozenset(
    f"scipy.stats.{name}" for name in ("bootstrap", "permutation_test", "monte_carlo_test")
)


def rust_problems(text: str) -> Found:
    """What a pure crate's source must not use: line (from 1) and what it is."""
    # Tests begin somewhere on the clock; what they test gets the time as an argument.
    text = text.partition("#[cfg(test)]\nmod tests")[0]
    for number, line in enumerate(code(text).splitlines(), start=1):
        for found in _RUST_FORBIDDEN.finditer(line):
            yield number, found.group()


def python_problems(text: str) -> Found:
    """What a pure package's source must not use: line (from 1) and what it is."""
    names: dict[str, str] = {}
    nodes = list(ast.walk(ast.parse(text)))
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = _imported(node)
            names.update(imported)
            for module in sorted({name.partition(".")[0] for name in imported.values()}):
                if _MODULES.fullmatch(module):
                    yield node.lineno, f"import of {module}"
    for node in nodes:
        if isinstance(node, ast.Call) and (problem := _call_problem(node, names)):
            yield node.lineno, problem


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Names that an import binds, and what they stand for, dotted. Relative imports are ours."""
    if isinstance(node, ast.Import):  # `import a.b` binds `a`, `import a.b as c` all of it
        firsts = [(alias.asname, alias.name, alias.name.partition(".")[0]) for alias in node.names]
        return {asname or first: name if asname else first for asname, name, first in firsts}
    if node.level:
        return {}
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}


def _call_problem(call: ast.Call, names: dict[str, str]) -> str:
    called = _dotted(call.func, names)
    given = {keyword.arg for keyword in call.keywords}
    if isinstance(call.func, ast.Name) and call.func.id in {"open", "input", "print"}:
        return f"{call.func.id}()"
    if called in _CLOCKS:
        return f"{called}()"
    if called in _RESAMPLING and not given & {"rng", "random_state"}:
        return f"{called}() without rng"
    if called.startswith(("random.", "numpy.random.")):
        return _randomness(called, seeded=bool(call.args or call.keywords))
    if isinstance(call.func, ast.Attribute) and _FILES.fullmatch(call.func.attr):
        return f".{call.func.attr}()"
    return ""


def _randomness(called: str, *, seeded: bool) -> str:
    """Generators (`Random`, `default_rng`) want a seed; functions on the shared state are out."""
    last = called.rpartition(".")[2]
    if last != "default_rng" and not last[0].isupper():
        return f"{called}() on shared state"
    return "" if seeded else f"{called}() without a seed"


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """`np.random.rand` as `numpy.random.rand`; empty for what was not imported."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    return ""


def check(root: Path) -> list[str]:
    """All problems of the pure rooms, each with its place."""
    return [
        *_check(root, ".rs", RUST, rust_problems),
        *_check(root, ".py", PYTHON, python_problems),
    ]


def _check(
    root: Path, suffix: str, rooms: tuple[str, ...], problems: Callable[[str], Found]
) -> Iterator[str]:
    for path in files(root, [suffix]):
        name = str(path.relative_to(root))
        # `mod tests;` of Rust: as what stands in the file itself.
        if name.startswith(tuple(f"{room}/" for room in rooms)) and path.name != "tests.rs":
            for line, problem in problems(path.read_text()):
                yield f"{name}:{line}: {problem} in a pure room"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(report(check(ROOT), "pure rooms are pure"))
