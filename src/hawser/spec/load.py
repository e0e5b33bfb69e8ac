"""A workflow file, with all it extends, to a `Workflow` in which every variant is resolved."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable

from hawser.spec import check
from hawser.spec.check import result
from hawser.spec.document import EVERYTHING, HEADER, SCENARIO, Header
from hawser.spec.errors import Place, Problems, choices
from hawser.spec.override import Override, apply, from_text
from hawser.spec.syntax import parse
from hawser.spec.tree import Items, Scalar, Table, Tree, empty, is_null, merge
from hawser.spec.validate import report_all, validate
from hawser.spec.variables import Variables
from hawser.spec.variants import Choice, Variants, expand, label_text
from hawser.spec.workflow import Scenario, Variant, Workflow

Read = Callable[[str], bytes | str]
"""Gives the content of a file by its name; raises OSError where it cannot."""

MAX_EXTENDS = 8
"""Length of a chain of files that extend each other."""


def load(file: str, read: Read, overrides: Iterable[str] = ()) -> Workflow:
    """Read a workflow.

    Args:
        file: name of the workflow file, for `read` and for messages.
        read: gives the content of this file and of those it extends, whose names are joined to its own.
        overrides: texts of the form `a.b.c=value`, such as the command line's `--set`. They win over the file and over
            every variant.

    Raises:
        SpecErrors: everything that is wrong, each with its place.
    """
    problems = Problems()
    tree = _document(file, read, problems, Place(file, 1, 1), ())
    last = from_text(overrides, problems)
    problems.check()
    assert tree is not None  # noqa: S101 (there would have been a problem)
    return _Loader(tree, last, problems).workflow()


class _Loader:
    """Turns one merged document into a workflow."""

    def __init__(self, tree: Table, last: tuple[Override, ...], problems: Problems) -> None:
        self._base = tree
        self._last = last
        self._problems = problems
        self._changed = apply(tree, last, problems)
        problems.check()
        self._unknown_fields()

    def workflow(self) -> Workflow:
        """Resolve everything, then tell every mistake or give the workflow."""
        variants = expand(self._changed.get("variants"), self._problems)
        header, tree = self._header()
        resolved = [(c.labels, self._scenario(c)) for c in variants.choices]
        if header is not None:
            self._check_header(header, tree, variants, resolved)
        self._problems.check()
        assert header is not None  # noqa: S101 (there would have been a problem)
        scenarios = [Variant(labels=dict(l), scenario=s) for l, s in resolved if s is not None]
        fields = {name: getattr(header, name) for name in Header.model_fields if name != "hawser"}
        return Workflow(**fields, variants=tuple(scenarios))

    def _unknown_fields(self) -> None:
        for key in self._changed.nodes:
            if key not in EVERYTHING:
                self._problems.add(
                    self._changed.keys[key], key, f"unknown field; {choices(EVERYTHING, key)}"
                )

    def _header(self) -> tuple[Header | None, Table]:
        tree = self._variables(self._changed).substitute(
            _labels_as_text(self._changed.only(*HEADER))
        )
        assert isinstance(tree, Table)  # noqa: S101 (a mapping stays one)
        return validate(Header, tree, self._problems), tree

    def _scenario(self, choice: Choice) -> Scenario | None:
        """Resolve one variant: its own overrides over the file, and the caller's over them."""
        changed = apply(self._base, (*choice.overrides, *self._last), self._problems)
        tree = _normal(self._variables(changed).substitute(_normal(changed.only(*SCENARIO))))
        scenario = validate(Scenario, tree, self._problems)
        if scenario is not None:
            report_all(check.scenario(scenario), tree, self._problems)
        return scenario

    def _variables(self, tree: Table) -> Variables:
        node = tree.get("vars")
        if node is not None and not isinstance(node, Table) and not is_null(node):
            self._problems.add(node.place, "vars", "expected a mapping of names to values")
        return Variables(node if isinstance(node, Table) else empty(tree.place), self._problems)

    def _check_header(
        self,
        header: Header,
        tree: Table,
        variants: Variants,
        resolved: list[tuple[dict[str, str], Scenario | None]],
    ) -> None:
        report_all(result.bounds(header), tree, self._problems)
        report_all(result.labels(header, variants.axes, variants.choices), tree, self._problems)
        measured = [(labels, s.measurements) for labels, s in resolved if s is not None]
        if len(measured) == len(resolved):
            report_all(result.sources(header, measured), tree, self._problems)


def _document(
    file: str, read: Read, problems: Problems, asked: Place, chain: tuple[str, ...]
) -> Table | None:
    """Read a file and all it extends into one tree."""
    try:
        text = read(file)
    except OSError as error:
        problems.add(
            asked, "extends" if chain else "", f"cannot read {file}: {error.strerror or error}"
        )
        return None
    tree = parse(text, file, problems)
    if tree is None:
        return None
    if not isinstance(tree, Table):
        problems.add(tree.place, "", "expected a mapping that begins with hawser: 1")
        return None
    tree = _nodes_as_table(tree)
    base = tree.get("extends")
    return tree if base is None else _extended(tree, base, read, problems, (*chain, file))


def _extended(
    tree: Table, base: Tree, read: Read, problems: Problems, chain: tuple[str, ...]
) -> Table | None:
    if not (isinstance(base, Scalar) and isinstance(base.value, str) and base.value):
        problems.add(base.place, "extends", "expected the name of a workflow file")
        return None
    name = posixpath.normpath(posixpath.join(posixpath.dirname(chain[-1]), base.value))
    if name in chain or len(chain) > MAX_EXTENDS:
        way = " -> ".join([*chain, name])
        problems.add(
            base.place, "extends", f"found files that extend each other without end: {way}"
        )
        return None
    below = _document(name, read, problems, base.place, chain)
    if below is None:
        return None
    merged = merge(below, tree.without("extends"))
    return merged if isinstance(merged, Table) else None


def _normal(tree: Tree) -> Table:
    """Bring the short forms of a scenario to the long ones that the model knows."""
    assert isinstance(tree, Table)  # noqa: S101 (a mapping stays one)
    tree = _nodes_as_table(tree)
    return _at(
        _at(tree, ("topology", "nodes"), _empty_nodes),
        ("topology", "nodes", "*", "sysctl"),
        _as_text,
    )


def _nodes_as_table(tree: Table) -> Table:
    return _at(tree, ("topology", "nodes"), _named)


def _named(node: Tree) -> Tree:
    """Turn a list of names into a mapping of names to nothing in particular."""
    if not isinstance(node, Items) or not all(isinstance(n, Scalar) for n in node.nodes):
        return node
    names = [n for n in node.nodes if isinstance(n, Scalar)]
    if len({n.text for n in names}) < len(names):
        return node
    keys = {n.text: n.place for n in names}
    return Table(node.place, {name: empty(place) for name, place in keys.items()}, keys)


def _empty_nodes(nodes: Tree) -> Tree:
    return _each(nodes, lambda node: empty(node.place) if is_null(node) else node)


def _labels_as_text(tree: Table) -> Table:
    for field in ("reference", "assert"):
        tree = _at(tree, (field, "*", "variant"), _as_text)
    return tree


def _as_text(tree: Tree) -> Tree:
    return _each(tree, lambda n: Scalar(n.place, label_text(n)) if isinstance(n, Scalar) else n)


def _each(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    match tree:
        case Items():
            return Items(tree.place, tuple(change(node) for node in tree.nodes))
        case Table():
            return Table(tree.place, {k: change(n) for k, n in tree.nodes.items()}, tree.keys)
        case Scalar():
            return tree


def _at(tree: Table, path: tuple[str, ...], change: Callable[[Tree], Tree]) -> Table:
    """Give the tree with a change made at a path, where there is something; `*` stands for every part."""
    changed = _change(tree, path, change)
    assert isinstance(changed, Table)  # noqa: S101 (a mapping stays one)
    return changed


def _change(tree: Tree, path: tuple[str, ...], change: Callable[[Tree], Tree]) -> Tree:
    if not path:
        return change(tree)
    if path[0] == "*":
        return _each(tree, lambda node: _change(node, path[1:], change))
    child = tree.get(path[0]) if isinstance(tree, Table) else None
    if child is None or not isinstance(tree, Table):
        return tree
    return tree.put(path[0], _change(child, path[1:], change))
