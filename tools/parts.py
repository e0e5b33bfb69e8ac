"""Run targets of the Makefile one after the other; say how long each took and what was skipped.

    tools/parts.py check test-rust test-unit

All run, also after one has failed. Exit code 1 when any failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

_PYTEST_CLOSING = re.compile(r"^=* ?(?:\d+ \w+, )*\d+ \w+.* in [\d.]+s")
_CARGO_CLOSING = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
_PYTEST_SKIP = re.compile(r"^SKIPPED \[(\d+)\] (.+?)(?::\d+)?: (.*)$")
_CARGO_SKIP = re.compile(r"^test (\S+) \.\.\. ignored(?:, (.*))?$")


@dataclass
class Part:
    """What a target printed, counted."""

    name: str
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    """How many tests were skipped, by place and reason."""
    seconds: float = 0.0
    code: int = 0

    def read(self, line: str) -> None:
        """Take note of a line of pytest's or cargo's output."""
        if found := _PYTEST_SKIP.match(line):
            self.skips[f"{found[2]}: {found[3]}"] += int(found[1])
        elif found := _CARGO_SKIP.match(line):
            self.skips[f"{found[1]}: {found[2] or 'no reason given'}"] += 1
        elif found := _CARGO_CLOSING.match(line):
            self.passed += int(found[1])
            self.failed += int(found[2])
        elif _PYTEST_CLOSING.match(line):
            counts = {what.rstrip("s"): int(number) for number, what in _COUNT.findall(line)}
            self.passed += counts.get("passed", 0)
            self.failed += counts.get("failed", 0) + counts.get("error", 0)


def run(part: Part, tell: Callable[[str], object] = sys.stdout.write) -> None:
    """Run a target, passing on what it prints."""
    start = time.monotonic()
    command = ["make", "--no-print-directory", part.name]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None  # noqa: S101 (asked for above)
        for line in process.stdout:
            tell(line)
            sys.stdout.flush()
            part.read(line.rstrip("\n"))
    part.code, part.seconds = process.returncode, time.monotonic() - start


def summary(parts: Sequence[Part]) -> Iterable[str]:
    """The lines that close a run of these parts."""
    yield f"{'part':<14}{'took':>12}{'passed':>9}{'failed':>9}{'skipped':>9}"
    for part in parts:
        counts = (part.passed, part.failed, part.skips.total())
        shown = "".join(f"{count:>9}" if any(counts) else f"{'':>9}" for count in counts)
        end = "" if part.code == 0 else f"   FAILED (exit code {part.code})"
        yield f"{part.name:<14}{duration(part.seconds):>12}{shown}{end}"
    yield f"{'all':<14}{duration(sum(part.seconds for part in parts)):>12}"
    for part in parts:
        for why, number in part.skips.items():
            yield f"skipped {number} x {why}"
    passed, failed, skipped = (
        sum(numbers)
        for numbers in zip(*((p.passed, p.failed, p.skips.total()) for p in parts), strict=True)
    )
    yield f"{passed} passed, {failed} failed, {skipped} skipped"


def duration(seconds: float) -> str:
    """Such as `3 min 07 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="+", metavar="TARGET", help="a target of the Makefile")
    parts = [Part(name) for name in parser.parse_args(arguments).parts]
    for part in parts:
        print(f"--- {part.name}", flush=True)
        run(part)
    print("\n" + "\n".join(summary(parts)), flush=True)
    return int(any(part.code for part in parts))


if __name__ == "__main__":
    sys.exit(main())
