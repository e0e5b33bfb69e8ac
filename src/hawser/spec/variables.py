"""Variables: `"${name}"`, as a whole value, stands for any value that `vars:` gives it.

There is no templating: a value is never composed of text, so it keeps its type and place.
"""

from __future__ import annotations

import re

from hawser.spec.errors import Problems, choices, found
from hawser.spec.tree import Items, Scalar, Table, Tree, too_large

NAME = r"[a-z][a-z0-9_-]{0,30}"
"""A variable's name."""

WHOLE = rf"\$\{{{NAME}\}}"
"""A reference to a variable."""

_WHOLE = re.compile(WHOLE)
MAX_CHAIN = 16
"""Length of a chain of variables that refer to each other."""


class Variables:
    """The variables of one variant."""

    def __init__(self, definitions: Table, problems: Problems) -> None:
        self._definitions = definitions
        self._problems = problems
        self._known: dict[str, Tree | None] = {}
        self._open: list[str] = []

    def table(self, table: Table) -> Table:
        """Give a mapping with all variables replaced; those with an error are left as they are."""
        nodes = {key: self._substitute(node, key) for key, node in table.nodes.items()}
        return Table(table.place, nodes, table.keys)

    def _substitute(self, node: Tree, field: str) -> Tree:
        match node:
            case Scalar():
                return self._scalar(node, field)
            case Items():
                parts = (self._substitute(n, f"{field}.{i}") for i, n in enumerate(node.nodes))
                return self._limited(Items(node.place, tuple(parts)), node, field)
            case Table():
                nodes = {
                    key: self._substitute(child, f"{field}.{key}")
                    for key, child in node.nodes.items()
                }
                return self._limited(Table(node.place, nodes, node.keys), node, field)

    def _scalar(self, node: Scalar, field: str) -> Tree:
        if not isinstance(node.value, str) or "${" not in node.value:
            return node
        if not _WHOLE.fullmatch(node.value):
            expected = 'a variable alone, such as "${name}": text is not composed'
            message = f"found {found(node.value)}, expected {expected}"
            self._problems.add(node.place, field, message, settles=True)
            return node
        return self._variable(node, node.value[2:-1], field)

    def _variable(self, node: Scalar, name: str, field: str) -> Tree:
        definition = self._definitions.get(name)
        if definition is None:
            hint = choices(self._definitions.nodes, name)
            message = f"found {name!r}, which is no variable; {hint}"
            self._problems.add(node.place, field, message, settles=True)
            return node
        if name in self._open or len(self._open) >= MAX_CHAIN:
            way = " -> ".join([*self._open, name])
            message = f"found variables that refer to each other without end: {way}"
            self._problems.add(node.place, field, message, settles=True)
            return node
        if name not in self._known:
            self._open.append(name)
            self._known[name] = self._substitute(definition, f"vars.{name}")
            self._open.pop()
        return self._known[name] or node

    def _limited(self, new: Tree, old: Tree, field: str) -> Tree:
        problem = too_large(new)
        if problem is None:
            return new
        self._problems.add(old.place, field, problem)
        return old
