"""The short forms of a file, brought to the long ones that the models know."""

from __future__ import annotations

from collections.abc import Callable

from hawser.spec.errors import Problems, found
from hawser.spec.tree import Items, Scalar, Table, Tree, empty, is_null

Change = Callable[[Tree], Tree]


def nodes_as_table(tree: Table, problems: Problems) -> Table:
    """Turn `nodes: [h1, h2]` into a mapping, so that files and overrides can add to it by name."""
    return at(tree, ("topology", "nodes"), lambda nodes: _named(nodes, problems))


def scenario(tree: Table, problems: Problems) -> Table:
    """Bring a scenario to its long form: a node may be nothing but a name, a setting a number."""
    tree = nodes_as_table(tree, problems)
    tree = at(tree, ("topology", "nodes", "*"), lambda n: empty(n.place) if is_null(n) else n)
    return at(tree, ("topology", "nodes", "*", "sysctl", "*"), _as_text)


def labels_as_text(tree: Table) -> Table:
    """Take labels as they were written: `4` and `"4"` name the same value of an axis."""
    for field in ("published", "reference", "assert"):
        for labels in ("variant", "relative_to"):
            tree = at(tree, (field, "*", labels, "*"), _as_text)
    return at(tree, ("baseline", "*"), _as_text)


def at(tree: Table, path: tuple[str, ...], change: Change) -> Table:
    """Give the tree with a change made at a path, where there is something.

    `*` stands for every part of a mapping or list.
    """
    if path[0] == "*":
        nodes = {key: _inside(node, path[1:], change) for key, node in tree.nodes.items()}
        return Table(tree.place, nodes, tree.keys)
    child = tree.get(path[0])
    return tree if child is None else tree.put(path[0], _inside(child, path[1:], change))


def _inside(node: Tree, path: tuple[str, ...], change: Change) -> Tree:
    if not path:
        return change(node)
    if isinstance(node, Items) and path[0] == "*":
        return Items(node.place, tuple(_inside(n, path[1:], change) for n in node.nodes))
    return at(node, path, change) if isinstance(node, Table) else node


def _named(nodes: Tree, problems: Problems) -> Tree:
    """Turn a list of names into a mapping of names to nothing in particular."""
    if not isinstance(nodes, Items):
        return nodes
    keys = {}
    for node in nodes.nodes:
        if not isinstance(node, Scalar):
            problems.add(node.place, "topology.nodes", "expected the name of a node")
        elif node.text in keys:
            problems.add(node.place, "topology.nodes", f"found {found(node.text)} again")
        else:
            keys[node.text] = node.place
    return Table(nodes.place, {name: empty(place) for name, place in keys.items()}, keys)


def _as_text(node: Tree) -> Tree:
    return Scalar(node.place, node.text, node.text) if isinstance(node, Scalar) else node
