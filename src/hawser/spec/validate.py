"""Tree to model, with every complaint at its place."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hawser.spec.errors import Problems
from hawser.spec.explain import TAGS, Fields, Loc, explain
from hawser.spec.model import Model
from hawser.spec.tree import Scalar, Table, Tree, child, place_of, plain

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong with a field."""

    loc: Loc
    message: str
    key: bool = False
    """Whether the key is wrong rather than its value."""


def validate(model: type[M], tree: Tree) -> tuple[M | None, list[Issue]]:
    """Make a model of a tree, or say everything that keeps it from being one."""
    text = json.dumps(plain(tree))
    try:  # strict, but in JSON a list may still be a tuple and a text an enum
        return model.model_validate_json(text, strict=True), []
    except ValidationError as error:
        return None, list(_issues(error.errors(include_url=False), tree, _fields(model)))


def report(issues: Iterable[Issue], tree: Tree, problems: Problems) -> None:
    """Note issues at the places where their fields are written."""
    for issue in issues:
        place = place_of(tree, issue.loc, key=issue.key)
        problems.add(place, ".".join(str(step) for step in issue.loc), issue.message)


def _issues(details: Iterable[ErrorDetails], tree: Tree, fields: Fields) -> Iterator[Issue]:
    for detail in details:
        if _follows(detail):
            continue
        loc = _in_file(tree, detail["loc"])
        if detail["type"] in TAGS:
            loc = (*loc, TAGS[detail["type"]])
        if loc and loc[-1] == "[key]":
            yield Issue(loc[:-1], explain(detail, fields), key=True)
        else:
            unknown = detail["type"] == "extra_forbidden"
            yield Issue(loc, explain(detail, fields), key=unknown)


def _follows(detail: ErrorDetails) -> bool:
    """Tell whether a list is called too short only because its entries are wrong themselves."""
    short = detail["type"] == "too_short" and isinstance(detail["input"], list | dict)
    return short and len(detail["input"]) >= detail["ctx"]["min_length"]


@functools.cache
def _fields(model: type[Model]) -> Fields:
    return Fields(model)


def _in_file(tree: Tree, loc: Loc) -> Loc:
    """Give a location as the file has it: pydantic puts the tag of a union between its steps."""
    field: list[str | int] = []
    node: Tree | None = tree
    for step in loc:
        if _is_tag(node, step):
            continue
        field.append(step)
        node = None if node is None else child(node, step)
    return tuple(field)


def _is_tag(node: Tree | None, step: str | int) -> bool:
    if step in ("[count]", "[until]"):
        return True
    if not isinstance(node, Table) or step in node.nodes:
        return False
    return any(isinstance(t := node.get(k), Scalar) and t.value == step for k in TAGS.values())
