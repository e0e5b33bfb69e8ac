"""Overrides, written `dotted.path = value`: changes by variants and by the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hawser.spec.errors import Place, Problems, found
from hawser.spec.syntax import parse
from hawser.spec.tree import MAX_DEPTH, Items, Scalar, Table, Tree, empty, is_null


@dataclass(frozen=True, slots=True)
class Override:
    """A new value for one field."""

    path: str
    """Keys and list positions with dots between: `topology.links.lan1.rate`, `events.0.at`."""
    node: Tree
    """The new value; `null` deletes the field."""
    place: Place
    """Where the override is written."""

    @property
    def root(self) -> str:
        """The first key."""
        return self.path.split(".", 1)[0]


def from_text(texts: Iterable[str], problems: Problems) -> tuple[Override, ...]:
    """Read overrides of the form `a.b.c=value`; the value is YAML."""
    read = (_from_text(text, problems) for text in texts)
    return tuple(override for override in read if override is not None)


def _from_text(text: str, problems: Problems) -> Override | None:
    text = text.encode(errors="backslashreplace").decode()  # an argument may hold any bytes
    place = Place(f"--set {text}")
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        problems.add(place, "", f"found {found(text)}, expected a.b.c=value")
        return None
    if path.strip() == "extends":
        problems.add(place, "extends", "cannot be set: files are merged before")
        return None
    inside = Problems()
    node = parse(value, place.file, inside) if value.strip() else Scalar(place, "")
    for error in inside:
        problems.add(place, path.strip(), error.message)
    return None if node is None else Override(path.strip(), _moved(node, place), place)


def _moved(node: Tree, place: Place) -> Tree:
    """Give the tree with all parts at one place: an argument has no lines."""
    match node:
        case Scalar():
            return Scalar(place, node.value, node.text)
        case Items():
            return Items(place, tuple(_moved(child, place) for child in node.nodes))
        case Table():
            nodes = {key: _moved(child, place) for key, child in node.nodes.items()}
            return Table(place, nodes, dict.fromkeys(nodes, place))


def apply(tree: Table, overrides: Iterable[Override], problems: Problems) -> Table:
    """Give the tree with overrides applied in order."""
    for override in overrides:
        try:
            tree = _applied(tree, override)
        except _PathError as error:
            problems.add(override.place, override.path, str(error))
    return tree


def _applied(tree: Table, override: Override) -> Table:
    path = override.path.split(".")
    if len(path) > MAX_DEPTH:
        raise _PathError(f"found {len(path)} steps, expected at most {MAX_DEPTH}")
    changed = _put(tree, path, override)
    return changed if isinstance(changed, Table) else tree


class _PathError(Exception):
    """The path contains something that has no fields."""


def _put(node: Tree, path: Sequence[str], override: Override) -> Tree:
    if not path:
        return override.node
    if isinstance(node, Items):
        return _put_item(node, path, override)
    if isinstance(node, Scalar) and not is_null(node):
        raise _PathError(f"found {found(node.value)}, expected a mapping to set {path[0]!r} in")
    table = node if isinstance(node, Table) else empty(override.place)
    key, rest = _split(table, path)
    old = table.get(key)
    if not rest and old is not None and is_null(override.node):
        return table.without(key)
    return table.put(key, _put(old or empty(override.place), rest, override), override.place)


def _put_item(items: Items, path: Sequence[str], override: Override) -> Items:
    index = int(path[0]) if path[0].isdecimal() and len(path[0]) < 6 else len(items.nodes)
    if index >= len(items.nodes):
        raise _PathError(f"found position {path[0]!r}, expected 0 to {len(items.nodes) - 1}")
    before, after = items.nodes[:index], items.nodes[index + 1 :]
    if len(path) == 1 and is_null(override.node):
        return Items(items.place, (*before, *after))
    return Items(items.place, (*before, _put(items.nodes[index], path[1:], override), *after))


def _split(table: Table, path: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Split the first key off. A key may hold dots (`gw1.a`): the longest that exists wins."""
    for length in range(len(path), 1, -1):
        key = ".".join(path[:length])
        if key in table.nodes:
            return key, path[length:]
    return path[0], path[1:]
