"""What a run will do, computed in advance. Pure except for `missing` and `check_filters`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hawser.driver.base import Driver
from hawser.engine import schedule
from hawser.engine.errors import InputError
from hawser.node.pcap import fault
from hawser.overlay.lab import network
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe import collector
from hawser.probe.attacks import beside as attacks
from hawser.probe.capture import TOOLS
from hawser.probe.registry import probe_for
from hawser.probe.replay import beside as replay
from hawser.spec.measurement import expected_seconds
from hawser.spec.workflow import Labels, Scenario, Variant, Workflow
from hawser.store import label
from hawser.store.manifest import TrialPlan

MAKING_SECONDS = 2.0
"""Seconds to create and remove a small lab; corrected by the first trials."""


@dataclass(frozen=True)
class Prepared:
    """One variant, ready to be deployed."""

    variant: Variant
    network: NetworkPlan
    seconds: float
    """How long one trial is expected to take."""


@dataclass(frozen=True)
class Plan:
    """A whole run."""

    workflow: Workflow
    variants: tuple[Prepared, ...]
    order: tuple[TrialPlan, ...]

    @property
    def seconds(self) -> float:
        """How long all trials are expected to take."""
        return sum(self.of(trial.variant).seconds for trial in self.order)

    def of(self, labels: Labels) -> Prepared:
        """The variant with exactly these labels."""
        return next(p for p in self.variants if p.variant.labels == labels)


def plan(workflow: Workflow, facts: Facts) -> Plan:
    """Compute every network as it will be deployed, and the order of trials.

    Args:
        workflow: what is to be run.
        facts: what the machines can do.

    Raises:
        InputError: the workflow cannot be carried out as it is; lists everything that is wrong.
    """
    replays = dict.fromkeys(variant.scenario.replay for variant in workflow.variants)
    problems = [text for each in replays for text in replay.problems(each)]
    problems = problems or [text for variant in workflow.variants for text in _problems(variant)]
    if problems:
        raise InputError(problems)
    settle = float(workflow.settle)
    return Plan(
        workflow=workflow,
        variants=tuple(
            Prepared(
                v, network(v.scenario, facts), making(v.scenario) + settle + measuring(v.scenario)
            )
            for v in workflow.variants
        ),
        order=schedule.order(
            [variant.labels for variant in workflow.variants], workflow.repeat, workflow.seed
        ),
    )


def measuring(scenario: Scenario) -> float:
    """Seconds that the measurements of one trial take."""
    attacked = float(scenario.attacks.duration) if scenario.attacks is not None else 0.0
    replayed = replay.seconds(scenario.replay)
    return max(expected_seconds(scenario.measurements), attacked, replayed)


def making(scenario: Scenario) -> float:
    """Seconds to create and remove a lab, and what runs in it before anything is measured."""
    return MAKING_SECONDS + collector.seconds(scenario.collector)


def _problems(variant: Variant) -> Iterator[str]:
    end = measuring(variant.scenario)
    for number, event in enumerate(variant.scenario.events):
        if event.at >= end:
            yield (
                f"events[{number}].at of variant {label(variant.labels)}: found {event.at}, "
                f"expected less than the {end:g} s that its measurements take"
            )


def missing(planned: Plan, driver: Driver) -> tuple[str, ...]:
    """What the machines lack for the run, each once, with how to get it."""
    lacks = (
        text
        for prepared in planned.variants
        for text in driver.missing(prepared.network, _tools(prepared.variant.scenario))
    )
    return tuple(dict.fromkeys(lacks))


def _tools(scenario: Scenario) -> tuple[str, ...]:
    """Programs that the measurements of a trial start on nodes, each once."""
    probes = map(probe_for, scenario.measurements.values())
    captures = TOOLS if scenario.capture else ()
    beside_them = (*attacks.tools(scenario.attacks), *collector.tools(scenario.collector))
    found = (*(tool for probe in probes for tool in probe.tools()), *captures, *beside_them)
    return tuple(dict.fromkeys(found))


def check_filters(workflow: Workflow) -> None:
    """Compile the filters of all captures.

    Raises:
        InputError: one is no filter; nothing was done.
    """
    found = {
        (name, capture.filter)
        for variant in workflow.variants
        for name, capture in variant.scenario.capture.items()
    }
    faults = [
        f"capture.{name}.filter: found {expression!r}: {said}"
        for name, expression in sorted(found)
        if expression and (said := fault(expression)) is not None
    ]
    if faults:
        raise InputError(faults)
