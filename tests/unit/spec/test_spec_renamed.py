"""Old names of workflow fields: still accepted, warned about, and of the same meaning.

The files in `renamed` are the shipped workflows as they were before names changed.
"""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML
from spec_files import SMALL, WORKFLOWS, read

from hawser.overlay.lab.network import network
from hawser.spec import SpecErrors, Workflow, load, schema
from hawser.spec.measurement import Throughput
from hawser.spec.renamed import RENAMED, SpecWarning
from hawser.spec.units import Rate

OLD = sorted((Path(__file__).parent / "renamed").glob("*.yaml"))
NAMES = {path[-1]: new for path, new in RENAMED.items()}
SEARCH = SMALL.replace("{probe: ping", "{probe: throughput, sizes: {fixed: 64 B}")


def loaded(
    text: str, overrides: tuple[str, ...] = (), **files: str
) -> tuple[Workflow, list[SpecWarning]]:
    """Load a workflow from text, with the files that it extends."""
    warnings: list[SpecWarning] = []

    def content(name: str) -> str:
        return text if name == "x.yaml" else files[name.removesuffix(".yaml")]

    return load("x.yaml", content, overrides, warnings.append), warnings


def min_load(workflow: Workflow) -> Rate:
    search = workflow.variants[0].scenario.measurements["rtt"]
    assert isinstance(search, Throughput)
    return search.min_load


def renewed(path: str) -> str:
    """A file of old names with the new ones put in by a text editor."""
    text = Path(path).read_text()
    for old, new in NAMES.items():
        text = re.sub(rf'(?<=[ {{.]){old}(?=: [^\n]*["{{0-9])', new, text)
    return text


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_old_files_warn_and_mean_the_same(path: Path) -> None:
    warnings: list[SpecWarning] = []
    old, new = load(str(path), read, (), warnings.append), load(str(path), renewed)
    assert warnings
    assert {warning.old.rpartition(".")[2] for warning in warnings} <= set(NAMES)
    assert old == new
    for before, after in list(zip(old.variants, new.variants, strict=True))[:4]:
        assert network(before.scenario) == network(after.scenario)


def test_every_old_name_is_in_an_old_file() -> None:
    warnings: list[SpecWarning] = []
    for path in OLD:
        load(str(path), read, (), warnings.append)
    assert {warning.old.rpartition(".")[2] for warning in warnings} == set(NAMES)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_shipped_workflows_use_new_names(path: Path) -> None:
    warnings: list[SpecWarning] = []
    load(str(path), read, (), warnings.append)
    assert warnings == []


def test_a_warning_has_place_and_both_names() -> None:
    _, warnings = loaded(SMALL + "overlay: {transport: none, branches: {},\n  lane: {II: tcp}}\n")
    assert [str(warning) for warning in warnings] == [
        "x.yaml:7:3: warning: overlay.lane was renamed to overlay.tcp_proxy"
    ]


def test_overrides_of_the_command_line() -> None:
    workflow, warnings = loaded(SEARCH, ("measurements.rtt.least=3 Mbit/s",))
    assert min_load(workflow) == Rate(3e6)
    assert [(warning.old, warning.new) for warning in warnings] == [
        ("measurements.rtt.least", "measurements.rtt.min_load")
    ]
    probe = "probe: throughput, from: a, to: b, sizes: {fixed: 64 B}"
    whole = f"measurements.rtt={{{probe}, least: 3 Mbit/s}}"
    assert min_load(loaded(SMALL, (whole,))[0]) == Rate(3e6)


@pytest.mark.parametrize(
    "override", ["measurements.rtt.least: 3 Mbit/s", "overlay.lane.II: tcp", "overlay: {lane: {}}"]
)
def test_overrides_of_variants(override: str) -> None:
    text = (
        SEARCH
        + "overlay: {transport: none, branches: {}}\n"
        + f"variants: {{product: {{axis: {{one: {{{override}}}, two: {{}}}}}}}}\n"
    )
    if override.startswith("overlay: "):
        text = text.replace("lane: {}", "transport: none, branches: {}, lane: {II: tcp}")
    workflow, warnings = loaded(text)
    changed, _ = (variant.scenario for variant in workflow.variants)
    assert len(warnings) == 1
    assert warnings[0].line == 7
    if override.startswith("overlay"):
        assert changed.overlay is not None
        assert set(changed.overlay.tcp_proxy) == {"II"}
    else:
        assert min_load(workflow) == Rate(3e6)


def test_a_value_of_a_variable_is_warned_about_once() -> None:
    search = '"${search}"'
    text = SMALL.replace("{probe: ping, from: a, to: b}", f"{search}, again: {search}") + (
        "vars:\n"
        "  search: {probe: throughput, from: a, to: b, sizes: {fixed: 64 B}, least: 3 Mbit/s}\n"
    )
    workflow, warnings = loaded(text)
    assert min_load(workflow) == Rate(3e6)
    assert [(warning.line, warning.new) for warning in warnings] == [
        (7, "measurements.rtt.min_load")
    ]


def test_a_new_name_wins_over_an_old_one_in_an_extended_file() -> None:
    base = SEARCH.replace("to: b", "to: b, least: 3 Mbit/s")
    own = "hawser: 1\nextends: base.yaml\nmeasurements: {rtt: {min_load: 5 Mbit/s}}\n"
    workflow, warnings = loaded(own, base=base)
    assert min_load(workflow) == Rate(5e6)
    assert [warning.file for warning in warnings] == ["base.yaml"]


def test_both_names_at_once_are_refused() -> None:
    text = SEARCH.replace("to: b", "to: b, least: 3 Mbit/s, min_load: 5 Mbit/s")
    with pytest.raises(SpecErrors, match=r"found 'least' and 'min_load', which is its new name"):
        loaded(text)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_editors_accept_old_names_as_deprecated(path: Path) -> None:
    file = YAML(typ="safe", pure=True).load(path.read_text())
    jsonschema.Draft202012Validator(schema()).validate(file)
    assert schema()["$defs"]["Overlay"]["properties"]["lane"]["deprecated"] is True
