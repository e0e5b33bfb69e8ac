"""Old names of workflow fields, accepted in this version with a warning.

`RENAMED` is the only place that knows them. Trees are brought to the new names right after parsing,
so that files, overrides and variables with old and new names can be combined, and everything behind
knows the new names alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hawser.spec.errors import Place, Problems
from hawser.spec.override import Override
from hawser.spec.shorthand import at
from hawser.spec.tree import Data, Items, Scalar, Table, Tree, plain

Path = tuple[str, ...]
"""Keys from the root of a workflow; `*` stands for any key."""

RENAMED: Final[Mapping[Path, str]] = {
    ("overlay", "lane"): "tcp_proxy",
    ("topology", "internet", "bottlenecks", "*", "background"): "cross_traffic",
    ("topology", "internet", "bottlenecks", "*", "reverse", "background"): "cross_traffic",
    ("measurements", "*", "least"): "min_load",
    ("measurements", "*", "greatest"): "max_load",
}
"""Path of an old name -> the new name of its last key."""

_VALUES: Final = (("variants", "product", "*", "*"), ("variants", "zip", "*", "*"))
"""Where overrides are written in a file: dotted paths and their values."""


@dataclass(frozen=True, slots=True)
class SpecWarning:
    """An old name in a workflow."""

    file: str
    line: int
    column: int
    old: str
    """Dotted path of the field as written, such as `overlay.tcp_proxy`."""
    new: str
    """Its path with the new name."""

    def __str__(self) -> str:
        place = Place(self.file, self.line, self.column)
        return f"{place}: warning: {self.old} was renamed to {self.new}"


Warn = Callable[[SpecWarning], None]


class Renames:
    """Replaces old names in the parts of one workflow, and warns about each once."""

    def __init__(self, problems: Problems, warn: Warn) -> None:
        self._problems = problems
        self._warn = warn
        self._places: set[Place] = set()

    def document(self, tree: Table) -> Table:
        """Give a file's tree with new names."""
        for path in _VALUES:
            tree = at(tree, path, self._overrides)
        return self.scenario(tree)

    def scenario(self, tree: Table) -> Table:
        """Give a tree of a scenario's fields with new names."""
        node: Tree = tree
        for path, new in RENAMED.items():
            node = self._inside(node, (), path, new)
        return node if isinstance(node, Table) else tree

    def override(self, override: Override) -> Override:
        """Give an override with new names in its path and value."""
        path, node = self._override(override.path, override.node, override.place)
        return Override(path, node, override.place)

    def _overrides(self, node: Tree) -> Tree:
        if not isinstance(node, Table):
            return node
        for key, value in node.nodes.items():
            path, changed = self._override(key, value, node.keys[key])
            if path != key or changed is not value:
                node = self._replaced(node, key, path, changed, path)
        return node

    def _override(self, dotted: str, node: Tree, place: Place) -> tuple[str, Tree]:
        for path, new in RENAMED.items():
            steps = tuple(dotted.split("."))
            if len(steps) < len(path) and _matches(steps, path[: len(steps)]):
                node = self._inside(node, steps, path[len(steps) :], new)
            elif len(steps) >= len(path) and _matches(steps[: len(path)], path):
                current = (*steps[: len(path) - 1], new, *steps[len(path) :])
                self._note(place, steps, current)
                dotted = ".".join(current)
        return dotted, node

    def _inside(self, node: Tree, above: Path, path: Path, new: str) -> Tree:
        """Rename the field at a path below a node, which is itself at `above`."""
        if not isinstance(node, Table):
            return node
        if len(path) > 1:
            for key in list(node.nodes) if path[0] == "*" else (path[0],):
                if (child := node.get(key)) is not None:
                    changed = self._inside(child, (*above, key), path[1:], new)
                    node = node if changed is child else node.put(key, changed)
            return node
        if (value := node.get(path[0])) is None:
            return node
        self._note(node.keys[path[0]], (*above, path[0]), (*above, new))
        return self._replaced(node, path[0], new, value, ".".join((*above, new)))

    def _replaced(self, table: Table, old: str, new: str, value: Tree, field: str) -> Table:
        """Give a copy with another key and value in the same position."""
        if new != old and new in table.nodes:
            message = f"found {old!r} and {new!r}, which is its new name; expected one of them"
            self._problems.add(table.keys[old], field, message)
            return table.without(old)
        nodes = {new if k == old else k: value if k == old else n for k, n in table.nodes.items()}
        keys = {new if key == old else key: place for key, place in table.keys.items()}
        return Table(table.place, nodes, keys)

    def _note(self, place: Place, old: Sequence[str], new: Sequence[str]) -> None:
        if place not in self._places:
            self._places.add(place)
            names = ".".join(old), ".".join(new)
            self._warn(SpecWarning(place.file, place.line, place.column, *names))


def resolved(text: bytes) -> bytes:
    """Give the JSON of a resolved workflow with new names; an earlier version may have written it.

    What is not the JSON of a workflow is given back as it is.
    """
    if not any(f'"{path[-1]}":'.encode() in text for path in RENAMED):
        return text
    try:
        workflow = json.loads(text)
        variants = workflow["variants"]
        for variant in variants:
            scenario = _tree(variant["scenario"])
            if isinstance(scenario, Table):
                renames = Renames(Problems(), lambda _: None)
                variant["scenario"] = plain(renames.scenario(scenario))
    except (ValueError, RecursionError, TypeError, LookupError):
        return text
    return json.dumps(workflow).encode()


def _tree(data: Data) -> Tree:
    match data:
        case dict():
            nodes = {key: _tree(value) for key, value in data.items()}
            return Table(_NOWHERE, nodes, dict.fromkeys(nodes, _NOWHERE))
        case list():
            return Items(_NOWHERE, tuple(map(_tree, data)))
        case _:
            return Scalar(_NOWHERE, data)


_NOWHERE: Final = Place("")


def _matches(steps: Sequence[str], path: Path) -> bool:
    """Tell whether keys fit a path of the same length."""
    return all(wanted in ("*", step) for step, wanted in zip(steps, path, strict=True))
