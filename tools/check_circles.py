"""Fail on files of a Rust crate that import each other in a circle, unless listed with a reason.

A circle has at most three files, all in one folder. Prints those that are left with their reasons.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from repository import ROOT, report
from rust_imports import Imports, imports

LIMIT = 3
# The files of each circle that is left, and why it is.
REASONS: Mapping[tuple[str, ...], str] = {
    tuple(f"crates/load/src/{name}.rs" for name in ("open", "receiver_udp", "sender_udp")): (
        "open.rs chooses sender and receiver; the UDP ones return its error"
    ),
    tuple(f"crates/netdev/src/mptcp/{name}.rs" for name in ("mod", "subflow")): (
        "a subflow is read through the socket option that mod.rs defines"
    ),
    tuple(f"crates/wire/src/record/{name}.rs" for name in ("hello", "mod")): (
        "a hello is one kind of record, and begins with the header of all"
    ),
}


def circles(found: Imports) -> list[tuple[str, ...]]:
    """Files that import each other, directly or by way of others; each circle sorted."""
    reach = {file: _reach(found, file) for pair in found for file in pair}
    tied = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in reach if a in reach[a]}
    return sorted(tied)


def _reach(found: Imports, start: str) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        here = ahead.pop()
        new = {b for a, b in found if a == here} - reached
        reached |= new
        ahead += new
    return reached


def problems(found: Imports, reasons: Mapping[tuple[str, ...], str] = REASONS) -> Iterator[str]:
    """Circles that must not be, each with what ties it; and reasons without a circle."""
    left = circles(found)
    for circle in left:
        folders = {PurePath(file).parent for file in circle}
        if len(circle) > LIMIT:
            yield f"a circle of {len(circle)} files, at most {LIMIT}: {_ties(found, circle)}"
        elif len(folders) > 1:
            yield f"a circle across folders: {_ties(found, circle)}"
        elif circle not in reasons:
            yield f"a new circle: {_ties(found, circle)}"
    for circle in reasons:
        if circle not in left:
            yield f"no circle any more, strike its reason: {', '.join(circle)}"


def _ties(found: Imports, circle: tuple[str, ...]) -> str:
    ties = [
        f"{a} -> {b} ({', '.join(sorted(names))})"
        for (a, b), names in sorted(found.items())
        if a in circle and b in circle
    ]
    return "; ".join(ties)


def crates(root: Path) -> Imports:
    """Imports of all crates, with files named from the root of the repository."""
    found: Imports = {}
    for source in sorted(root.glob("crates/*/src")):
        for name in ("lib.rs", "main.rs"):
            if (source / name).exists():
                here = source.relative_to(root)
                for (a, b), names in imports(source / name).items():
                    found[str(here / a), str(here / b)] = names
    return found


def main() -> int:
    """Print the report; the exit code."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = crates(ROOT)
    left = circles(found)
    for circle in left:
        if circle in REASONS:
            print(f"circle left: {', '.join(circle)}: {REASONS[circle]}")
    fine = f"{len(found)} imports between files of crates, {len(left)} circles, each with a reason"
    return report(list(problems(found)), fine)


if __name__ == "__main__":
    sys.exit(main())
