"""Traces of variable rate in mahimahi's format, taken in from files beside the workflow.

Each line is a time in milliseconds at which 1504 bytes may pass; after the last line the trace
starts again (Netravali et al., "Mahimahi", USENIX ATC 2015, section 4).
"""

from __future__ import annotations

from collections.abc import Callable

from hawser.spec.errors import Problems, found
from hawser.spec.shorthand import at
from hawser.spec.tree import Scalar, Table, Tree

PLACES = (
    ("topology", "links", "*"),
    ("topology", "internet", "path"),
    ("topology", "internet", "ports", "*"),
    ("topology", "internet", "paths", "*"),
)
MAX_LINES = 1_000_000


def inlined(tree: Table, read: Callable[[str], bytes | str], problems: Problems) -> Table:
    """Put the content of trace files where their names stand."""
    for place in PLACES:
        for path in ((*place, "trace"), (*place, "reverse", "trace")):
            tree = at(tree, path, lambda node: _content(node, read, problems))
    return tree


def _content(node: Tree, read: Callable[[str], bytes | str], problems: Problems) -> Tree:
    if not (isinstance(node, Scalar) and isinstance(node.value, str)):
        return node
    try:
        content = read(node.value)
        text = content if isinstance(content, str) else content.decode("ascii")
    except OSError as error:
        problems.add(node.place, "trace", f"cannot read {node.value}: {error.strerror or error}")
        return Scalar(node.place, None)
    except UnicodeDecodeError:
        problems.add(node.place, "trace", f"{node.value} is not a text of numbers")
        return Scalar(node.place, None)
    return Scalar(node.place, text, node.text)


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
