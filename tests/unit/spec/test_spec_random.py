"""Any file has an answer: a workflow, or `SpecErrors`; and a workflow stays what it is as JSON."""

from __future__ import annotations

import contextlib
import json

import jsonschema
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from spec_files import WORKFLOWS, loaded, read
from spec_strategies import files, overrides, texts, trees

from hawser.overlay.lab import network
from hawser.spec import SpecErrors, Workflow, load, schema

VALIDATOR = jsonschema.Draft202012Validator(schema())


def answer(text: str) -> Workflow | None:
    """Load, and let nothing but `SpecErrors` pass."""
    with contextlib.suppress(SpecErrors):
        return loaded(text)
    return None


@given(st.one_of(texts(), trees(), st.text()))
@example("{hawser: 1, vars: {a: 1}, vars: {b: 2}}")
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_file_has_an_answer(text: str) -> None:
    workflow = answer(text)
    for variant in workflow.variants if workflow else ():
        network(variant.scenario)


@given(files())
@settings(max_examples=50)
def test_a_right_file_loads_and_fits_the_schema(file: dict[str, object]) -> None:
    VALIDATOR.validate(file)
    workflow = loaded(json.dumps(file))
    assert Workflow.model_validate_json(workflow.model_dump_json(by_alias=True)) == workflow


@given(st.lists(overrides(), min_size=1, max_size=3))
def test_any_override_has_an_answer(texts: list[str]) -> None:
    """One field set to something else: deeper in than random files come."""
    with contextlib.suppress(SpecErrors):
        workflow = load(str(WORKFLOWS[0].with_name("link-down.yaml")), read, texts)
        for variant in workflow.variants:
            network(variant.scenario)


def test_shipped_workflows_stay_what_they_are() -> None:
    for path in WORKFLOWS:
        workflow = load(str(path), read)
        assert Workflow.model_validate_json(workflow.model_dump_json(by_alias=True)) == workflow
