"""Tree to model, with every complaint at its place."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from hawser.spec.errors import Problems
from hawser.spec.explain import Fields, Loc, explain
from hawser.spec.model import Model
from hawser.spec.tree import Scalar, Table, Tree, place_of, plain

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong in a field that a model cannot see by itself."""

    loc: Loc
    message: str
    key: bool = False
    """Whether the key is wrong rather than its value."""


def validate(model: type[M], tree: Tree, problems: Problems) -> M | None:
    """Make a model of a tree; None, with the mistakes noted, where it is none."""
    text = json.dumps(
        plain(tree)
    )  # in JSON, strict still takes a list for a tuple and text for an enum
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        fields = _fields(model)
        for detail in error.errors(include_url=False):
            report(
                _issue(detail["type"], _field(tree, detail["loc"]), explain(detail, fields)),
                tree,
                problems,
            )
        return None


def report(issue: Issue, tree: Tree, problems: Problems) -> None:
    """Note an issue at the place where its field is written."""
    place = place_of(tree, issue.loc, key=issue.key)
    problems.add(place, ".".join(str(step) for step in issue.loc), issue.message)


def report_all(issues: Iterable[Issue], tree: Tree, problems: Problems) -> None:
    """Note many issues."""
    for issue in issues:
        report(issue, tree, problems)


def _issue(kind: str, loc: Loc, message: str) -> Issue:
    if loc and loc[-1] == "[key]":
        return Issue(loc[:-1], message, key=True)
    return Issue(loc, message, key=kind == "extra_forbidden")


@functools.cache
def _fields(model: type[Model]) -> Fields:
    return Fields(model)


def _field(tree: Tree, loc: Loc) -> Loc:
    """Give a location as the file has it: pydantic puts the tag of a union between its steps."""
    field: list[str | int] = []
    node: Tree | None = tree
    for step in loc:
        if _is_tag(node, step):
            continue
        field.append(step)
        node = _below(node, step)
    return tuple(field)


def _is_tag(node: Tree | None, step: str | int) -> bool:
    if not isinstance(node, Table) or step in node.nodes:
        return False
    tag = node.get("probe")
    return isinstance(tag, Scalar) and tag.value == step


def _below(node: Tree | None, step: str | int) -> Tree | None:
    if isinstance(node, Table):
        return node.get(str(step))
    nodes = getattr(node, "nodes", ())
    return nodes[step] if isinstance(step, int) and step < len(nodes) else None
