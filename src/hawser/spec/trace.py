"""Traces of variable rate in mahimahi's format.

Each line is a time in milliseconds at which 1504 bytes may pass; after the last line the trace
starts again (Netravali et al., "Mahimahi", USENIX ATC 2015, section 4).
"""

from __future__ import annotations

from hawser.spec.errors import found

MAX_LINES = 1_000_000


def fault(text: str) -> str | None:
    """Say what is wrong with a trace; None where nothing is."""
    last = 0
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        return f"found {len(lines)} lines, expected at most {MAX_LINES}"
    for number, line in enumerate(lines, start=1):
        if not (line.isascii() and line.strip().isdigit() and int(line) < 2**32):
            return f"line {number}: found {found(line[:40])}, expected whole milliseconds"
        if int(line) < last:
            return f"line {number}: found {line.strip()} ms after {last} ms, expected rising times"
        last = int(line)
    return None if last > 0 else "found no time above 0 ms, expected at least one"
