"""Variants: every combination of `product` axes with the steps of `zip`, less what is excluded."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hawser.spec.document import HEADER, VARIED
from hawser.spec.errors import Place, Problems, choices, found
from hawser.spec.override import Override
from hawser.spec.tree import Items, Scalar, Table, Tree, is_null
from hawser.spec.workflow import Labels

MAX_VARIANTS = 1000

_AXIS = re.compile(r"[a-z][a-z0-9-]{0,30}")
_LABEL = re.compile(r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,62}[^\s\x00-\x1f\x7f])?")


@dataclass(frozen=True, slots=True)
class Value:
    """One value of an axis: its name and what it changes."""

    label: str
    overrides: tuple[Override, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One variant before it is resolved."""

    labels: Labels
    overrides: tuple[Override, ...]


Axes = dict[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Variants:
    """All variants of a workflow."""

    axes: Axes
    choices: tuple[Choice, ...]


def expand(node: Tree | None, problems: Problems) -> Variants:
    """Read `variants:`. Without it there is one variant, without labels.

    The first axis varies slowest, the steps of `zip` fastest.
    """
    if node is None or is_null(node):
        return Variants({}, (Choice({}, ()),))
    reader = _Reader(problems)
    table = reader.table(node, "variants", ("product", "zip", "exclude"))
    product = reader.axes(table, "product")
    zipped = reader.axes(table, "zip")
    reader.check_zip(table, product, zipped)
    excluded = reader.excluded(table, {**product, **zipped})
    combined = reader.combine(node.place, product, zipped)
    kept = tuple(c for c in combined if not any(e.items() <= c.labels.items() for e in excluded))
    if combined and not kept:
        problems.add(
            node.place, "variants.exclude", "found every variant excluded, expected one to stay"
        )
    return Variants({**product, **zipped}, kept)


class _Reader:
    """Reads the parts of `variants:`."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def table(self, node: Tree | None, field: str, known: tuple[str, ...] = ()) -> Table | None:
        """Give the mapping, None with a mistake noted where it is none."""
        if node is None or is_null(node):
            return None
        if not isinstance(node, Table):
            self._problems.add(node.place, field, "expected a mapping")
            return None
        for key in node.nodes if known else ():
            if key not in known:
                self._problems.add(
                    node.keys[key], f"{field}.{key}", f"unknown field; {choices(known, key)}"
                )
        return node

    def axes(self, table: Table | None, kind: str) -> Axes:
        """Read the axes under `product` or `zip`."""
        field = f"variants.{kind}"
        axes = self.table(table and table.get(kind), field)
        return dict(self._axes(axes, field)) if axes else {}

    def _axes(self, axes: Table, field: str) -> Iterator[tuple[str, tuple[Value, ...]]]:
        for name, node in axes.nodes.items():
            here = f"{field}.{name}"
            if not _AXIS.fullmatch(name):
                expected = "small letters, digits and dashes, a letter first, at most 31"
                self._problems.add(
                    axes.keys[name], here, f"found {found(name)}, expected {expected}"
                )
            values = self.table(node, here)
            if values is None or not values.nodes:
                self._problems.add(
                    axes.keys[name], here, "expected a mapping of value names to overrides"
                )
                continue
            yield name, tuple(self._value(values, label, here) for label in values.nodes)

    def _value(self, values: Table, label: str, field: str) -> Value:
        here = f"{field}.{label}"
        if not _LABEL.fullmatch(label):
            self._problems.add(
                values.keys[label], here, f"found {found(label)}, expected up to 64 characters"
            )
        changes = self.table(values.nodes[label], here)
        overrides = (
            [Override(path, node, changes.keys[path]) for path, node in changes.nodes.items()]
            if changes
            else []
        )
        for override in overrides:
            self._check_root(override, here)
        return Value(label, tuple(o for o in overrides if o.root in VARIED))

    def _check_root(self, override: Override, field: str) -> None:
        if override.root not in VARIED:
            hint = choices(VARIED, None if override.root in HEADER else override.root)
            message = f"found {found(override.path)}, which cannot vary; {hint}"
            self._problems.add(override.place, field, message)

    def check_zip(self, table: Table | None, product: Axes, zipped: Axes) -> None:
        """Zipped axes must be equally long, and an axis may be only once."""
        if table is None:
            return
        lengths = {name: len(values) for name, values in zipped.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            message = f"{told}; expected axes of the same length"
            self._problems.add(table.keys["zip"], "variants.zip", message)
        for name in product.keys() & zipped.keys():
            message = f"found the axis {name!r} in product too"
            self._problems.add(table.keys["zip"], f"variants.zip.{name}", message)

    def excluded(self, table: Table | None, axes: Axes) -> list[Labels]:
        """Read the combinations that are left out."""
        node = table and table.get("exclude")
        if node is None or is_null(node):
            return []
        if not isinstance(node, Items):
            self._problems.add(
                node.place, "variants.exclude", "expected a list of label combinations"
            )
            return []
        return [
            self._combination(item, f"variants.exclude.{index}", axes)
            for index, item in enumerate(node.nodes)
        ]

    def _combination(self, node: Tree, field: str, axes: Axes) -> Labels:
        table = self.table(node, field)
        if table is None or not table.nodes:
            self._problems.add(node.place, field, "expected a mapping of axes to value names")
            return {"": ""}
        for name, value in table.nodes.items():
            if problem := unknown_label(axes, name, label_text(value)):
                place = table.keys[name] if name not in axes else value.place
                self._problems.add(place, f"{field}.{name}", problem)
        return {name: label_text(value) for name, value in table.nodes.items()}

    def combine(self, place: Place, product: Axes, zipped: Axes) -> list[Choice]:
        """Give every combination."""
        steps = min((len(values) for values in zipped.values()), default=1)
        count = math.prod(len(values) for values in product.values()) * steps
        if count > MAX_VARIANTS:
            message = f"found {count} variants, expected at most {MAX_VARIANTS}"
            self._problems.add(place, "variants", message)
            return []
        return [
            _choice(product, zipped, values, step)
            for values in itertools.product(*product.values())
            for step in range(steps)
        ]


def _choice(product: Axes, zipped: Axes, values: tuple[Value, ...], step: int) -> Choice:
    chosen = dict(zip(product, values, strict=True))
    chosen |= {name: column[step] for name, column in zipped.items()}
    labels = {name: value.label for name, value in chosen.items()}
    return Choice(labels, tuple(o for value in chosen.values() for o in value.overrides))


def label_text(node: Tree) -> str:
    """Give a label as it was written: `4` and `"4"` name the same value."""
    return node.text if isinstance(node, Scalar) else ""


def unknown_label(axes: Axes, name: str, label: str) -> str | None:
    """Say what is wrong with a label, None where axis and value exist."""
    if name not in axes:
        return f"found {found(name)}, which is no axis; {choices(axes, name)}"
    known = [value.label for value in axes[name]]
    if label in known:
        return None
    return f"found {found(label)}, which is no value of {name}; {choices(known, label)}"
