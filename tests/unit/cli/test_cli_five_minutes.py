"""The head of every workflow names a part of it that ends in five minutes.

A line `# Five minutes: OPTIONS` gives the options of `hawser run` for it.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from hawser.cli.chosen import source
from hawser.engine.plan import making, measuring
from hawser.engine.schedule import order
from hawser.spec.workflow import Workflow

ROOT = Path(__file__).parents[3]
LONGER = {"controller-demo"}
"""One trial that shows a day in five minutes has no part."""
WORKFLOWS = sorted(p for p in (ROOT / "workflows").glob("*.yaml") if p.stem not in LONGER)

LINE = re.compile(r"^# Five minutes: (.+)$", re.MULTILINE)


def part(path: Path) -> Workflow:
    """The workflow with the options of its head."""
    (options,) = LINE.findall(path.read_text())
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append")
    parser.add_argument("--repeat", type=int, required=True)
    parser.add_argument("--duration")
    given = parser.parse_args(shlex.split(options))
    return source(path, None, given.only, given.repeat, given.duration).workflow


def seconds(workflow: Workflow) -> float:
    """Expected time of all trials, as `hawser plan` tells it."""
    longest = {
        tuple(v.labels.items()): making(v.scenario) + float(workflow.settle) + measuring(v.scenario)
        for v in workflow.variants
    }
    trials = order([v.labels for v in workflow.variants], workflow.repeat, workflow.seed)
    return sum(longest[tuple(trial.variant.items())] for trial in trials)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_part_ends_in_five_minutes(path: Path) -> None:
    assert 10 < seconds(part(path)) <= 300


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_part_still_asserts_what_was_published(path: Path) -> None:
    """Of every workflow that names published items at least one assertion is left."""
    chosen = part(path)
    claims = [each for each in chosen.assertions if each.claim]
    assert claims or not chosen.published
