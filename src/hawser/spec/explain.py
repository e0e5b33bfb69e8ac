"""Validation errors in words: what was found, what was expected, and what may be meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic_core import ErrorDetails

from hawser.spec.capture import Expression
from hawser.spec.chain import FileName
from hawser.spec.cloud import ElementName
from hawser.spec.errors import choices, found
from hawser.spec.model import Model, Name, NodeOrPort, PortName
from hawser.spec.overlay import Route
from hawser.spec.port import Port
from hawser.spec.traffic import Genome
from hawser.spec.workflow import ELEMENT

Loc = tuple[str | int, ...]

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "ip_v4_network": "an IPv4 prefix without host bits, such as 10.1.0.0/24",
}
"""What was expected, by the type of pydantic's error."""

TAGS = {"union_tag_not_found": "probe", "union_tag_invalid": "probe"}
"""Pydantic's errors about the discriminator of a union, with the name of that field."""

_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
}

_SYNTAX = "small letters, digits and dashes, a letter first"


def _pattern(annotated: Any) -> str:  # noqa: ANN401 (a type alias has no type)
    return str(get_args(annotated)[1].pattern)


PATTERNS = {
    _pattern(Name): f"a name of {_SYNTAX}, at most 31",
    _pattern(PortName): f"a port's name of {_SYNTAX}, at most 15",
    Port.PATTERN: "a port, written node.port",
    _pattern(ElementName): f"a name of {_SYNTAX}, at most 12",
    _pattern(NodeOrPort): "a node, or a port written node.port",
    _pattern(Route): "a path through branch ports, such as b1.a>b2.a",
    _pattern(FileName): "a file's name of letters, digits and ._-, at most 64",
    _pattern(Expression): "printable ASCII characters in one line",
    _pattern(Genome): "letters of RFC 6985, a to j and z, such as aaaaaaaddddg",
    ELEMENT: "link:NAME, path:NAME, port:NODE.PORT, bottleneck:NAME or function:NAME",
}


def explain(error: ErrorDetails, fields: Fields) -> str:
    """Describe one of pydantic's errors in terms of the workflow file."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "missing":
        return f"missing{fields.about(error['loc'])}"
    if kind == "extra_forbidden":
        return f"unknown field; {choices(fields.of(error['loc'][:-1]), error['loc'][-1])}"
    if kind == "value_error":
        return _raised(str(context["error"]), value)
    if kind in TAGS:
        return _tag(kind, context)
    return f"found {found(value)}, {_expected(kind, value, context) or error['msg']}"


def _expected(kind: str, value: object, context: dict[str, Any]) -> str | None:
    if kind in _TYPES:
        return f"expected {_TYPES[kind]}"
    if kind in _BOUNDS:
        return "expected " + _BOUNDS[kind].format(**context)
    if kind in ("enum", "literal_error"):
        return choices(_quoted(context["expected"]), value)
    if kind == "string_pattern_mismatch":
        return f"expected {PATTERNS.get(context['pattern'], context['pattern'])}"
    return _length(kind, context) if kind in ("too_short", "too_long") else None


def _length(kind: str, context: dict[str, Any]) -> str:
    bound = "at least {min_length}" if kind == "too_short" else "at most {max_length}"
    return f"which has {context['actual_length']} entries, expected {bound.format(**context)}"


def _raised(text: str, value: object) -> str:
    """Give the text of a ValueError of ours or of the standard library."""
    if text.startswith("found"):
        return text
    reason = text.removeprefix(f"{value} ")
    return f"found {found(value)}{': ' if reason == text else ', which '}{reason}"


def _tag(kind: str, context: dict[str, Any]) -> str:
    if kind == "union_tag_not_found":
        return "missing (it says what kind of measurement this is)"
    known = _quoted(context["expected_tags"])
    return f"found {found(context['tag'])}; {choices(known, context['tag'])}"


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text) or [text]


class Fields:
    """The fields that a model has at a place, from its JSON Schema."""

    def __init__(self, model: type[Model]) -> None:
        self._root = model.model_json_schema()

    def of(self, loc: Sequence[str | int]) -> list[str]:
        """Names of the fields at this place."""
        options = list(self._options(self._root))
        for step in loc:
            options = list(self._step(options, step))
        return list(dict.fromkeys(key for o in options for key in o.get("properties", ())))

    def about(self, loc: Sequence[str | int]) -> str:
        """Give the first sentence of a field's description in brackets, if it has one."""
        options = list(self._options(self._root))
        for step in loc[:-1]:
            options = list(self._step(options, step))
        fields = (option.get("properties", {}).get(loc[-1], {}) for option in options)
        text = next((field["description"] for field in fields if "description" in field), "")
        sentence = text.partition(". ")[0].replace("\n", " ").rstrip(".")
        return f" ({sentence})" if sentence else ""

    def _step(self, options: list[dict[str, Any]], step: str | int) -> Iterator[dict[str, Any]]:
        below = [node for option in options for node in self._child(option, step)]
        if below:
            return iter(below)
        tagged = [option for option in options if step in _tags(option)]
        return iter(tagged or options)

    def _child(self, option: dict[str, Any], step: str | int) -> Iterator[dict[str, Any]]:
        for child in (
            option.get("properties", {}).get(step),
            option.get("additionalProperties"),
            *option.get("patternProperties", {}).values(),
            option.get("items") if isinstance(step, int) else None,
        ):
            if isinstance(child, dict):
                yield from self._options(child)

    def _options(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "$ref" in node:
            node = self._root["$defs"][node["$ref"].rpartition("/")[2]]
        parts: Iterable[dict[str, Any]] = (*node.get("anyOf", ()), *node.get("oneOf", ()))
        if not parts:
            yield node
        for part in parts:
            yield from self._options(part)


def _tags(option: dict[str, Any]) -> set[str]:
    return {p["const"] for p in option.get("properties", {}).values() if "const" in p}
