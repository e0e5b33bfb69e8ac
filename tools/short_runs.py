#!/usr/bin/env python3
"""Run the short form of workflows, which each file names, and keep the results.

A workflow file has a comment `# Five minutes: OPTIONS` with the options of `hawser run` that make a
run of it that short. The results of each run go to a folder as an archive, which `hawser
reproductions` reads. What is there already is not run again, so it can be stopped and gone on with.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HAWSER = str(ROOT / "hawser")
_LINE = re.compile(r"^# Five minutes: (.*)$", re.MULTILINE)


def command(file: Path, rates: float, seed: int | None) -> list[str]:
    """Give the words after `hawser run`, of a file that has a short form."""
    found = _LINE.search(file.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{file}: found no line `# Five minutes: OPTIONS`")
    words = [file.relative_to(ROOT).as_posix(), *shlex.split(found[1])]
    words += ["--rates", f"{rates:g}"] if rates != 1 else []
    return [*words, "--set", f"seed={seed}"] if seed is not None else words


def kept(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Give the archives of a folder, each with the command of its run after `hawser run`."""
    for file in sorted(folder.glob("*.tar.gz")):
        with tarfile.open(file) as tar:
            name = f"{file.name.removesuffix('.tar.gz')}/manifest.json"
            content = tar.extractfile(name)
            manifest = json.load(content) if content else {}
        yield file, [str(word) for word in manifest["command"][2:]]


def run(words: list[str], folder: Path) -> int:
    """Run a workflow, show what it says, and keep its results in place of earlier ones."""
    before = set(ROOT.glob("runs/*"))
    began = time.monotonic()
    code = subprocess.run([HAWSER, "run", *words], cwd=ROOT, check=False).returncode
    print(f"{shlex.join(words)}: exit code {code}, {time.monotonic() - began:.0f} s", flush=True)
    for new in set(ROOT.glob("runs/*")) - before:
        if json.loads((new / "manifest.json").read_text())["command"][2:] != words:
            continue  # somebody else's, who ran another workflow meanwhile
        earlier = [file for file, asked in kept(folder) if asked == words]
        archive = [HAWSER, "runs", "archive", new.name, "--results", "-o", str(folder)]
        if subprocess.run(archive, cwd=ROOT, check=False).returncode == 0:
            for file in earlier:
                file.unlink()
    return code


def main() -> int:
    """Run what the command line names; 1 where some run fails or is not valid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workflows", nargs="*", metavar="NAME", help="default: all that have one")
    parser.add_argument("--rates", type=float, default=1.0, metavar="X", help="multiply all rates")
    parser.add_argument("--seed", type=int, metavar="N", help="another seed than the files'")
    parser.add_argument("--keep", type=Path, default=ROOT / "docs" / "runs", metavar="DIR")
    parser.add_argument("--again", action="store_true", help="also what was run before")
    asked = parser.parse_args()
    files = [ROOT / "workflows" / f"{name}.yaml" for name in asked.workflows]
    files = files or [
        file for file in sorted(ROOT.glob("workflows/*.yaml")) if _LINE.search(file.read_text())
    ]
    for file in files:
        if not file.is_file():
            parser.error(f"{file}: no such workflow")
    asked.keep.mkdir(parents=True, exist_ok=True)
    done = [] if asked.again else [words for _, words in kept(asked.keep)]
    wanted = [command(file, asked.rates, asked.seed) for file in files]
    return max((run(words, asked.keep) for words in wanted if words not in done), default=0)


if __name__ == "__main__":
    sys.exit(main())
