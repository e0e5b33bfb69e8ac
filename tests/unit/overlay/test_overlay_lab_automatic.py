from __future__ import annotations

from pathlib import Path

import pytest

from hawser.overlay.lab.automatic import choice
from hawser.spec.controller import Controller
from hawser.spec.load import load
from hawser.spec.overlay import Paths
from hawser.spec.workflow import Scenario

WORKFLOW = Path(__file__).parents[3] / "workflows" / "controller-paths.yaml"


@pytest.fixture
def scenario() -> Scenario:
    """The six branches without a controller, their direct paths poor from the start."""
    text = WORKFLOW.read_text().replace("good: 20 Mbit/s", "good: 5 Mbit/s")
    variants = load("poor.yaml", lambda _: text).variants
    scenarios = (each.scenario for each in variants if each.scenario.overlay)
    first = next(each for each in scenarios if each.overlay.paths is Paths.AUTOMATIC)
    return first.model_copy(update={"controller": None})


def test_poor_direct_paths_are_helped_by_what_the_topology_says(scenario: Scenario) -> None:
    found = choice(scenario)
    assert any(route.count(">") == 3 for route in found["b1", "b2"])
    assert "b1.a>b2.a" in found["b1", "b2"]
    assert len(found) == 15


def test_a_controller_chooses_by_itself(scenario: Scenario) -> None:
    assert choice(scenario.model_copy(update={"controller": Controller(node="controller")})) == {}
