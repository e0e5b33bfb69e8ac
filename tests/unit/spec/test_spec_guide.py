"""The guide's examples work, and nothing is missing from it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import jsonschema
import pytest
from ruamel.yaml import YAML
from spec_files import ROOT, loaded, mistakes

from hawser.spec import schema
from hawser.spec.metric import METRICS

GUIDE = (ROOT / "docs" / "guide" / "workflow.md").read_text()
EXAMPLES = re.findall(r"^```yaml( wrong)?\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
RIGHT = [text for wrong, text in EXAMPLES if not wrong]
WRONG = [text for wrong, text in EXAMPLES if wrong]
FIRST = RIGHT[0]
ON_TOP = "extends: two-sites.yaml\n"


def complete(text: str) -> str:
    """Put a part on top of the guide's first file."""
    return text if text.startswith(("hawser:", "extends:")) else ON_TOP + text


@pytest.mark.parametrize("text", RIGHT, ids=lambda text: text[:30])
def test_examples_load(text: str) -> None:
    assert loaded(complete(text), **{"two-sites": FIRST}).variants
    file = YAML(typ="safe", pure=True).load(text)
    if "extends" not in file:
        file["hawser"] = 1
    jsonschema.Draft202012Validator(schema()).validate(file)


def test_what_the_guide_says_of_variants() -> None:
    counts = [
        len(loaded(complete(text), **{"two-sites": FIRST}).variants)
        for text in RIGHT
        if "variants:\n" in text
    ]
    assert counts == [2, 8, 6, 6]


def test_mistakes_are_told_as_shown() -> None:
    (text,) = WRONG
    shown = [line.strip() for line in GUIDE.splitlines() if line.startswith("    x.yaml:")]
    assert mistakes(complete(text), **{"two-sites": FIRST}) == shown


def test_every_field_and_metric_is_described() -> None:
    quoted = set(re.findall(r"[\w.-]+", " ".join(re.findall(r"`[^`\n]+`", GUIDE))))
    used = quoted | {key for text in RIGHT for key in re.findall(r"[\w.-]+(?=:)", text)}
    assert {*_fields(schema()), *METRICS} - used == set()


def _fields(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node.get("properties", {})
        for child in node.values():
            yield from _fields(child)
    elif isinstance(node, list):
        for child in node:
            yield from _fields(child)
