"""Immutable tree of a file's content, in which every node records where it was written.

Every step from file to workflow (inheritance, overrides, variables) maps trees to trees. An error
is therefore reported at the line that caused it, however the value got to its final place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hawser.spec.errors import Place

MAX_SIZE = 50_000
"""Most nodes of a tree with aliases and variables expanded. Large workflows have a few thousand."""
MAX_DEPTH = 32

Value = None | bool | int | float | str
Data = Value | list["Data"] | dict[str, "Data"]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, with the text as written."""

    place: Place
    value: Value
    text: str = ""
    size: int = field(default=1, init=False)
    depth: int = field(default=1, init=False)


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    place: Place
    nodes: tuple[Tree, ...]
    size: int = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, self.nodes)


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping. `keys` records where each key was written."""

    place: Place
    nodes: Mapping[str, Tree]
    keys: Mapping[str, Place]
    size: int = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, self.nodes.values())

    def get(self, key: str) -> Tree | None:
        """The value of a key, or None if there is no such key."""
        return self.nodes.get(key)

    def put(self, key: str, node: Tree, place: Place | None = None) -> Table:
        """Return a copy in which the key has this value."""
        keys = {**self.keys, key: place or self.keys.get(key, node.place)}
        return Table(self.place, {**self.nodes, key: node}, keys)

    def without(self, *gone: str) -> Table:
        """Return a copy without these keys."""
        rest = {key: node for key, node in self.nodes.items() if key not in gone}
        return Table(self.place, rest, {key: self.keys[key] for key in rest})

    def only(self, *kept: str) -> Table:
        """Return a copy with only these keys."""
        return self.without(*(key for key in self.nodes if key not in kept))


Tree = Scalar | Items | Table


def _measure(node: Items | Table, children: Collection[Tree]) -> None:
    object.__setattr__(node, "size", 1 + sum(child.size for child in children))
    object.__setattr__(node, "depth", 1 + max((child.depth for child in children), default=0))


def too_large(node: Tree) -> str | None:
    """Return an error message if the tree is too deep or too large, else None."""
    if node.depth > MAX_DEPTH:
        return f"found nesting deeper than {MAX_DEPTH} levels"
    if node.size > MAX_SIZE:
        return f"found more than {MAX_SIZE} values (with aliases and variables put in)"
    return None


def empty(place: Place) -> Table:
    """Return an empty mapping."""
    return Table(place, {}, {})


def is_null(node: Tree | None) -> bool:
    """Tell whether this is a `null` or an empty value."""
    return isinstance(node, Scalar) and node.value is None


def plain(node: Tree) -> Data:
    """Convert the tree to plain lists and dictionaries."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(child) for child in node.nodes]
        case Table():
            return {key: plain(child) for key, child in node.nodes.items()}


def merge(base: Table, over: Table) -> Table:
    """Merge `over` into `base`: mappings merge by key, `null` deletes, anything else replaces."""
    result = Table(over.place, base.nodes, base.keys)
    for key, node in over.nodes.items():
        result = _merge_key(result, key, node, over.keys[key])
    return result


def _merge_key(table: Table, key: str, node: Tree, place: Place) -> Table:
    old = table.get(key)
    if old is None:
        return table.put(key, node, place)
    if is_null(node):
        return table.without(key)
    if isinstance(old, Table) and isinstance(node, Table):
        node = merge(old, node)
    return table.put(key, node, place)


def place_of(root: Tree, loc: Sequence[str | int], *, key: bool = False) -> Place:
    """Find where a field is written, or its nearest enclosing node if it is absent.

    Args:
        root: the tree.
        loc: keys and indexes that lead from the root to the field.
        key: return the place of the last key instead of its value.
    """
    node, place = root, root.place
    for step in loc:
        below = child(node, step)
        if below is None:
            return place
        place = node.keys[str(step)] if key and isinstance(node, Table) else below.place
        node = below
    return place


def child(node: Tree, step: str | int) -> Tree | None:
    """Return the child under a key or at an index, or None if there is none."""
    if isinstance(node, Table):
        return node.get(str(step))
    if isinstance(node, Items) and isinstance(step, int) and step < len(node.nodes):
        return node.nodes[step]
    return None
