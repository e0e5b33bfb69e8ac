"""One trial: a fresh lab is made, left to settle, measured, and removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from hawser.driver.base import Driver, Lab, MissingCapability
from hawser.engine import collect
from hawser.engine.events import Timeline
from hawser.engine.plan import Prepared
from hawser.engine.signals import Signals
from hawser.node.base import NodeError
from hawser.probe.base import Context, Probe, ProbeError
from hawser.probe.evidence import Evidence
from hawser.probe.passive import Passive
from hawser.probe.registry import probe_for
from hawser.spec.measurement import Measurement
from hawser.spec.workflow import Scenario
from hawser.store.writer import TrialWriter


@dataclass(frozen=True)
class Bench:
    """What every trial of a run is carried out with."""

    driver: Driver
    lab: str
    """Name of the run's labs; there is never more than one at a time."""
    settle: float
    """Seconds between a lab's deployment and its first measurement."""
    stage: Callable[[str], None]
    """Told what is done now."""
    probes: Callable[[Measurement], Probe] = probe_for
    sleep: Callable[[float], None] = time.sleep
    signals: Signals = field(default_factory=Signals)


class _VoidTrialError(Exception):
    """The trial does not count; says why."""


def run_trial(bench: Bench, prepared: Prepared, writer: TrialWriter) -> None:
    """Carry out one trial. What fails makes it void, with the reason; the lab is always removed.

    Raises:
        MissingCapability: the machine lacks something; nothing was made.
        NodeError: the lab could not be removed.
    """
    try:
        with _lab(bench, prepared) as lab:
            try:
                bench.stage("settle")
                bench.sleep(bench.settle)
                _measure(bench, prepared.variant.scenario, lab, writer)
            finally:
                with bench.signals.shielded():
                    collect.files(lab, writer)
    except _VoidTrialError as reason:
        writer.void(str(reason))


@contextmanager
def _lab(bench: Bench, prepared: Prepared) -> Iterator[Lab]:
    """A lab for as long as the block runs, whatever happens in it."""
    bench.stage("deploy")
    try:
        lab = bench.driver.deploy(bench.lab, prepared.network)
    except MissingCapability:
        raise
    except NodeError as error:
        raise _VoidTrialError(f"deploy: {error}") from error
    try:
        yield lab
    finally:
        bench.stage("tear down")
        with bench.signals.shielded():
            lab.destroy()


def _measure(bench: Bench, scenario: Scenario, lab: Lab, writer: TrialWriter) -> None:
    timeline = Timeline(scenario.events, lab.apply)
    disrupted = any(event.change.up is False for event in scenario.events)
    try:
        collect.settings(lab, writer)
        with Passive(lab) as passive:
            for name, measurement in scenario.measurements.items():
                bench.stage(name)
                probe = bench.probes(measurement)
                with Evidence(lab, name, _ends(measurement), probe.seconds()) as evidence:
                    begun = partial(_begun, evidence, timeline)
                    context = Context(lab, name, writer.raw, begun, disrupted)
                    writer.add(probe.measure(context))
                    writer.add(evidence.finish())
            writer.add(passive.finish())
    except (ProbeError, NodeError) as error:
        raise _VoidTrialError("; ".join((*_died(lab), str(error)))) from error
    finally:
        collect.events(timeline.stop(), writer)
    if problems := (*_died(lab), *timeline.problems(), *passive.faults):
        raise _VoidTrialError("; ".join(problems))


def _ends(measurement: Measurement) -> tuple[str, str]:
    """Nodes between which is measured."""
    source, target = measurement.source, measurement.target
    return source.partition(".")[0], target.partition(".")[0]


def _begun(evidence: Evidence, timeline: Timeline) -> None:
    """Traffic starts: what explains it is read first, then events are timed from now."""
    evidence.begin()
    timeline.start()


def _died(lab: Lab) -> tuple[str, ...]:
    """Daemons that did not run all the time since the lab was made."""
    return tuple(
        f"daemon {name} died and was started again (restarts: {daemon.restarts})"
        for name, daemon in lab.daemons.items()
        if daemon.restarts
    )
