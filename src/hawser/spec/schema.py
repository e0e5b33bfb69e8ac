"""JSON Schema of the workflow file, for completion and checks in editors.

It is made from the models, with everything else that the loader allows: a variable or `null` in
place of any value, missing fields that another file or a variant gives, short forms and old names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter

from hawser.spec.document import EVERYTHING, Header
from hawser.spec.renamed import RENAMED
from hawser.spec.units import Duration, Quantity, Rate, Ratio, Size
from hawser.spec.variables import NAME, WHOLE
from hawser.spec.workflow import Scenario

Schema = dict[str, Any]

_QUANTITIES: tuple[type[Quantity], ...] = (Rate, Duration, Size, Ratio)

_INSTEAD: Schema = {
    "description": 'A variable, "${name}", or null to delete what an extended file has.',
    "anyOf": [{"type": "string", "pattern": f"^{WHOLE}$"}, {"type": "null"}],
}
_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}

_LEFT_OUT = ("title", "default", "required", "minItems", "minProperties", "format")
"""Keywords that do not apply to a single file, or that editors do not need."""


def schema() -> Schema:
    """Give the JSON Schema (draft 2020-12) of a workflow file."""
    header, scenario = Header.model_json_schema(), Scenario.model_json_schema()
    definitions = {**header["$defs"], **scenario["$defs"]}
    fields = _fields(header) | _structure() | _fields(scenario)
    fields["baseline"]["anyOf"][0]["additionalProperties"] = _SCALAR
    models = _models(definitions)
    fields["hawser"] = {"const": 1, "description": header["properties"]["hawser"]["description"]}
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hawser workflow",
        "description": "One experiment: what is deployed, what is measured, and what varies.",
        "type": "object",
        "properties": {name: fields[name] for name in EVERYTHING},
        "anyOf": [{"required": ["hawser"]}, {"required": ["extends"]}],
        "additionalProperties": False,
        "$defs": dict(sorted({**_quantities(), **models}.items())),
    }
    for path, new in RENAMED.items():
        for model in _at(made, made, path[:-1]):
            _deprecate(model["properties"], path[-1], new)
    return made


def _at(root: Schema, node: Schema, path: Sequence[str]) -> Iterator[Schema]:
    """Give the models at a path; `*` stands for any key."""
    for option in _resolved(root, node):
        if not path:
            yield from (option,) if "properties" in option else ()
            continue
        named = option.get("properties", {}).get(path[0])
        below = [named] if named else []
        if path[0] == "*":
            below = [*option.get("patternProperties", {}).values()]
        for child in below:
            yield from _at(root, child, path[1:])


def _resolved(root: Schema, node: Schema) -> Iterator[Schema]:
    if "$ref" in node:
        yield from _resolved(root, root["$defs"][node["$ref"].rpartition("/")[2]])
    elif "anyOf" in node and "properties" not in node:
        for option in node["anyOf"]:
            yield from _resolved(root, option)
    else:
        yield node


def _deprecate(fields: Schema, old: str, new: str) -> None:
    """Allow a field's old name, which editors strike through."""
    if new in fields:
        shown = {"description": f"Old name of `{new}`.", "deprecated": True}
        fields[old] = shown | {"anyOf": fields[new]["anyOf"]}


def _quantities() -> Schema:
    return {
        each.__name__: {"description": each.__doc__, **TypeAdapter(each).json_schema()}
        for each in _QUANTITIES
    }


def _models(definitions: Schema) -> Schema:
    models = {name: _model(model) for name, model in definitions.items()}
    _short_forms(models)
    return {"Instead": _INSTEAD, **models}


def _model(model: Schema) -> Schema:
    kept = {key: value for key, value in model.items() if key not in _LEFT_OUT}
    return {**kept, "properties": _fields(model)} if "properties" in model else kept


def _fields(model: Schema) -> Schema:
    return {name: _open(field) for name, field in model["properties"].items()}


def _open(field: Schema) -> Schema:
    """Allow variables for a field and its parts; keep what editors show."""
    shown = {key: field[key] for key in ("description",) if key in field}
    if field.get("default") not in (None, {}, [], ""):
        shown |= {"default": field["default"]} if "$ref" not in field else {}
    return {**shown, "anyOf": [*_options(field), {"$ref": "#/$defs/Instead"}]}


def _options(field: Schema) -> Iterator[Schema]:
    """Give the alternatives of a field. A part of a file may lack the tag of a union."""
    for option in field.get("anyOf") or field.get("oneOf") or (field,):
        if option.get("type") != "null":
            yield _value(option)


def _value(field: Schema) -> Schema:
    value = {k: v for k, v in field.items() if k not in (*_LEFT_OUT, "description")}
    for quantity in _QUANTITIES:
        if value == TypeAdapter(quantity).json_schema():
            return {"$ref": f"#/$defs/{quantity.__name__}"}
    if field.get("format") == "ipv4network":
        value["pattern"] = "^[0-9]+(\\.[0-9]+){3}(/[0-9.]+)?$"
    return value | _inside(value)


def _inside(value: Schema) -> Schema:
    """Allow variables for the items of a list or mapping."""
    inside: Schema = {
        key: _open(value[key])
        for key in ("items", "additionalProperties")
        if isinstance(value.get(key), dict)
    }
    if "prefixItems" in value:
        inside["prefixItems"] = [_open(item) for item in value["prefixItems"]]
    if "patternProperties" in value:
        named = value["patternProperties"].items()
        inside["patternProperties"] = {pattern: _open(item) for pattern, item in named}
        inside["additionalProperties"] = False
    return inside


def _short_forms(models: Schema) -> None:
    """Add the short forms that the loader accepts."""
    nodes = models["Topology"]["properties"]["nodes"]["anyOf"]
    nodes.insert(0, {"type": "array", "items": {"type": "string"}, "uniqueItems": True})
    for model, field in (
        ("Node", "sysctl"),
        ("Reference", "variant"),
        ("Assertion", "variant"),
        ("Assertion", "relative_to"),
    ):
        models[model]["properties"][field]["anyOf"][0]["additionalProperties"] = _SCALAR


def _structure() -> Schema:
    """Describe the fields without a model, which a resolved workflow no longer has."""
    return {
        "extends": {
            "description": "Workflow file that this one extends, relative to this file.",
            "type": "string",
        },
        "vars": {
            "description": 'Values for "${name}", which stands for a whole value of any type.',
            "type": ["object", "null"],
            "propertyNames": {"pattern": f"^{NAME}$"},
        },
        "variants": {
            "description": "What varies: axes, their values, and what each value overrides.",
            "type": ["object", "null"],
            "properties": _variants(),
            "additionalProperties": False,
        },
    }


def _variants() -> Schema:
    overrides = {
        "description": "Dotted paths and their values, such as overlay.transport: ipip.",
        "type": ["object", "null"],
    }
    axis = {"type": ["object", "null"], "additionalProperties": overrides}
    axes = {"type": ["object", "null"], "additionalProperties": axis}
    return {
        "product": {"description": "Every combination of these axes.", **axes},
        "zip": {
            "description": "Axes of the same length, combined in order.",
            **axes,
        },
        "exclude": {
            "description": "Combinations of labels to exclude.",
            "type": ["array", "null"],
            "items": {"type": "object", "additionalProperties": _SCALAR},
        },
    }
