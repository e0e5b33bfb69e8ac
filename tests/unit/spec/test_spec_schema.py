"""The JSON Schema that editors use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML
from spec_files import ROOT, SMALL, WORKFLOWS

from hawser.spec import schema
from hawser.spec.explain import PATTERNS

COMMITTED = ROOT / "schemas" / "workflow.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(schema())


def document(text: str) -> dict[str, object]:
    return YAML(typ="safe", pure=True).load(text)


def test_the_committed_one_is_fresh() -> None:
    assert json.loads(COMMITTED.read_text()) == schema(), (
        "hawser schema > schemas/workflow.schema.json"
    )


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_shipped_workflows_fit(path: Path) -> None:
    VALIDATOR.validate(document(path.read_text()))


@pytest.mark.parametrize(
    "more",
    [
        "repeats: 3",
        "repeat: three",
        "settle: 3",
        "settle: 3 seconds",
        "topology: {nodes: [a], switches: {}}",
        "topology: {nodes: {A: {}}}",
        "topology: {nodes: [a], links: {l: {ends: [a.x, b]}}}",
        "overlay: {transport: mtcp}",
        "measurements: {rtt: {probe: pong}}",
        "measurements: {rtt: {probe: ping, protocol: udp}}",
        "events: [{at: 1 s, element: gw1.a, change: {up: false}}]",
        "vars: {Name: 1}",
        "variants: {products: {}}",
        "assert: [{metric: rtt, atleast: 1}]",
    ],
)
def test_mistakes_are_seen(more: str) -> None:
    file = document(SMALL) | document(more)
    assert not VALIDATOR.is_valid(file)


@pytest.mark.parametrize(
    "text",
    [
        'hawser: 1\nrepeat: "${n}"\nmeasurements: "${all}"\nevents: ["${one}"]\n',
        "hawser: 1\nextends: base.yaml\ntopology: {links: {lan1: {rate: null}, lan2: null}}\n",
        "hawser: 1\ntopology: {nodes: {a: , b: {sysctl: {net.core.somaxconn: 4096}}}}\n",
        "hawser: 1\nassert: [{variant: {ratio: 4}, metric: rtt, at_most: 5}]\n",
        "hawser: 1\nmeasurements: {tcp: {duration: 3 s}}\n",
    ],
)
def test_parts_variables_and_short_forms_fit(text: str) -> None:
    VALIDATOR.validate(document(text))


def test_every_field_is_described() -> None:
    fields = list(_properties(schema()))
    assert len(fields) > 80
    assert [name for name, field in fields if not field.get("description")] == []


def test_every_pattern_has_words() -> None:
    """A message should not show a regular expression."""
    quantities = {"Rate", "Duration", "Size", "Ratio", "Instead"}
    models = {k: v for k, v in schema()["$defs"].items() if k not in quantities}
    patterns = set(_patterns([schema()["properties"], models]))
    assert {pattern for pattern in patterns if "[0-9]+(\\." not in pattern} <= set(PATTERNS)


def _properties(node: object) -> Iterator[tuple[str, dict[str, object]]]:
    if isinstance(node, dict):
        yield from node.get("properties", {}).items()
        for child in node.values():
            yield from _properties(child)
    elif isinstance(node, list):
        for child in node:
            yield from _properties(child)


def _patterns(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        yield from node.get("patternProperties", {})
        for key, child in node.items():
            if key != "vars":
                yield from _patterns(child)
    elif isinstance(node, list):
        for child in node:
            yield from _patterns(child)
