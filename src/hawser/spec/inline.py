"""Files beside a workflow, whose content is put where their names stand."""

from __future__ import annotations

from collections.abc import Callable

from hawser.spec.errors import Problems
from hawser.spec.shorthand import at
from hawser.spec.tree import Scalar, Table, Tree

TRACES = (
    ("topology", "links", "*"),
    ("topology", "internet", "path"),
    ("topology", "internet", "ports", "*"),
    ("topology", "internet", "paths", "*"),
)
"""What may have traces (`spec.trace`)."""
MODELS = (("functions", "*", "detection", "model"), ("collector", "model"))
"""Where the file of a model is named."""
MODEL_SIZE = 64 << 20
"""Size of a model at most, bytes, as in crates/trees."""

FILES = (("replay", "capture"), ("replay", "labels", "*"))
"""Where files are named whose content stays where it is."""

Read = Callable[[str], bytes | str]


def inlined(tree: Table, read: Read, problems: Problems) -> Table:
    """Put the content of trace and model files where their names stand."""
    for place in TRACES:
        for path in ((*place, "trace"), (*place, "reverse", "trace")):
            tree = at(tree, path, lambda node: _content(node, read, problems, "trace"))
    for path in MODELS:
        tree = at(tree, path, lambda node: _content(node, read, problems, "model"))
    return tree


def placed(tree: Table, beside: Callable[[str], str]) -> Table:
    """Put the places of files where their names beside the workflow stand."""
    for path in FILES:
        tree = at(tree, path, lambda node: _place(node, beside))
    return tree


def _place(node: Tree, beside: Callable[[str], str]) -> Tree:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
        return Scalar(node.place, beside(node.value), node.text)
    return node


def _content(node: Tree, read: Read, problems: Problems, field: str) -> Tree:
    if not (isinstance(node, Scalar) and isinstance(node.value, str)):
        return node
    try:
        content = read(node.value)
        text = content if isinstance(content, str) else content.decode("ascii")
    except OSError as error:
        problems.add(node.place, field, f"cannot read {node.value}: {error.strerror or error}")
        return Scalar(node.place, None)
    except UnicodeDecodeError:
        expected = "a text of numbers" if field == "trace" else "JSON"
        problems.add(node.place, field, f"{node.value} is not {expected}")
        return Scalar(node.place, None)
    if field == "model" and len(text) > MODEL_SIZE:
        problems.add(node.place, field, f"{node.value} has more than 64 MiB")
        return Scalar(node.place, None)
    return Scalar(node.place, text, node.text)
