"""The demonstration: a lab with a controller, traffic, and a scripted day of faults, repeated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hawser.driver.base import Lab
from hawser.engine.events import Timeline
from hawser.engine.rounds import together
from hawser.probe.base import Context
from hawser.probe.registry import probe_for
from hawser.spec.workflow import Change, Scenario
from hawser.store.sample import Sample

Say = Callable[[str], None]
_SHOWN = ("goodput", "loss", "rtt", "ping_loss")


def day(lab: Lab, scenario: Scenario, raw: Path, say: Say) -> list[Sample]:
    """Run all measurements of a scenario together, with its events; gives what was measured.

    Args:
        lab: of the scenario.
        scenario: its measurements have to run at the same time.
        raw: folder for the output of tools.
        say: told of every event.

    Raises:
        ProbeError: a tool failed.
        NodeError: the lab is gone.
    """

    def apply(element: str, change: Change) -> float:
        say(f"{element}: {describe(change)}")
        return lab.apply(element, change)

    timeline = Timeline(scenario.events, apply)

    def measure(name: str, ready: Callable[[], None]) -> list[Sample]:
        def begun() -> None:
            ready()
            timeline.start()

        probe = probe_for(scenario.measurements[name])
        return probe.measure(Context(lab, name, raw, begun, disrupted=True))

    try:
        found = together([partial(measure, name) for name in scenario.measurements])
    finally:
        timeline.stop()
    for problem in timeline.problems():
        say(problem)
    return found


def describe(change: Change) -> str:
    """What an event does, in words."""
    if change.up is not None:
        return "is back" if change.up else "goes down"
    values = change.model_dump(mode="json", exclude_none=True)
    return ", ".join(f"{name} {value}" for name, value in values.items())


def results(samples: list[Sample]) -> list[str]:
    """Say what a day's measurements gave."""
    return [
        f"{each.measurement}: {each.metric} {each.value:.3g} {each.unit}"
        for each in samples
        if each.kind == "summary" and each.metric in _SHOWN
    ]
