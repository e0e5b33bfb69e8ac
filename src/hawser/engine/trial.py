"""One trial: a fresh lab is created, settles, is measured, and is removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hawser.driver.base import Driver, Fleet, Lab, MissingCapability
from hawser.engine import collect
from hawser.engine.events import Timeline
from hawser.engine.guard import Guard, Unguarded
from hawser.engine.plan import Prepared
from hawser.engine.rounds import together
from hawser.engine.signals import Signals, StopRequest
from hawser.node.base import NodeError
from hawser.probe import fairness, optimum, sensors
from hawser.probe.attacks import passed
from hawser.probe.attacks.beside import attacking
from hawser.probe.backlog import Backlog
from hawser.probe.base import Context, Probe, ProbeError
from hawser.probe.capture import capturing
from hawser.probe.collector import collecting
from hawser.probe.convergence import Convergence, Switched
from hawser.probe.evidence import EvidenceRecorder, counted
from hawser.probe.passive import Passive
from hawser.probe.registry import probe_for
from hawser.probe.replay.beside import replaying
from hawser.spec.measurement import Iperf3, Measurement, fitted, offset, rounds
from hawser.spec.metric import depends_on_delay
from hawser.spec.workflow import Scenario
from hawser.store.sample import Sample
from hawser.store.writer import TrialWriter


@dataclass(frozen=True)
class Bench:
    """What all trials of a run share."""

    driver: Driver
    fleet: Fleet
    """Machines of the run."""
    lab: str
    """Name of the run's labs; there is never more than one at a time."""
    settle: float
    """Seconds between a lab's deployment and its first measurement."""
    stage: Callable[[str], None]
    """Is called with the current activity."""
    probes: Callable[[Measurement], Probe] = probe_for
    sleep: Callable[[float], None] = time.sleep
    signals: Signals = field(default_factory=StopRequest)
    """Source of interruptions."""
    guard: Guard = field(default_factory=Unguarded)
    """Gives each trial its turn on the machine."""

    def begin(self, stage: str) -> None:
        """Begin the next part of a trial, or raise `Interrupted`."""
        self.signals.check()
        self.stage(stage)


class _VoidTrialError(Exception):
    """The trial is void, for this reason."""


def run_trial(bench: Bench, prepared: Prepared, writer: TrialWriter) -> None:
    """Carry out one trial. A failure makes it void, with the reason; the lab is always removed.

    Raises:
        MissingCapability: the machine lacks something; nothing was made.
        NodeError: the lab could not be removed.
    """
    try:
        with _lab(bench, prepared) as lab:
            try:
                bench.begin("settle")
                bench.sleep(bench.settle)
                _measure(bench, prepared.variant.scenario, lab, writer)
            finally:
                with bench.signals.shielded():
                    lab.collect(writer.path)
    except _VoidTrialError as reason:
        writer.void(str(reason))


@contextmanager
def _lab(bench: Bench, prepared: Prepared) -> Iterator[Lab]:
    """A lab that is removed at the end of the block in any case."""
    bench.begin("deploy")
    try:
        lab = bench.fleet.deploy(bench.lab, prepared.network)
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
    if faults := (*_died(lab), *lab.faults()):
        raise _VoidTrialError(f"before the first measurement: {'; '.join(faults)}")
    try:
        collect.settings(lab, writer)
        with (
            collecting(lab, scenario.collector, writer.raw, bench.begin) as collector,
            capturing(lab, scenario.capture, writer.raw),
            attacking(lab, scenario.attacks, writer.raw) as attacks,
            replaying(lab, scenario.replay, writer.raw) as replay,
            Passive(lab) as passive,
        ):
            for names in rounds(scenario.measurements):
                bench.begin(" + ".join(names))
                one = _One(bench, scenario, lab, writer.raw, timeline)
                found = together([partial(one.measure, name) for name in names])
                writer.add([*found, *fairness.between(scenario.measurements, names, found)])
                writer.add(optimum.shares(scenario, names, found))
            if attacks is not None:
                writer.add(attacks.finish(bench.sleep, bench.begin))
            if replay is not None:
                bench.begin("replay")
                writer.add(replay.finish(bench.sleep))
            writer.add(passive.finish())
            if collector is not None:
                bench.begin("collect records")
                writer.add(collector.finish(bench.sleep))
            writer.add(sensors.counted(lab, writer.raw))
        all_labelled = replay is None or replay.all_labelled
        writer.add(passed.compared(scenario, writer.raw, all_labelled=all_labelled))
    except (ProbeError, NodeError) as error:
        raise _VoidTrialError("; ".join((*_died(lab), str(error)))) from error
    finally:
        collect.events(timeline.stop(), writer)
    if problems := (*_died(lab), *timeline.problems(), *passive.faults, *lab.faults()):
        raise _VoidTrialError("; ".join((*problems, *passive.late)))
    if passive.late and any(map(_delayed, writer.samples)):
        writer.void("; ".join(passive.late), late=True)


def _delayed(sample: Sample) -> bool:
    """Whether a result depends on delays."""
    return sample.kind == "summary" and depends_on_delay(sample.metric)


@dataclass(frozen=True)
class _One:
    """Runs single measurements of a trial."""

    bench: Bench
    scenario: Scenario
    lab: Lab
    raw: Path
    timeline: Timeline

    def measure(self, name: str, ready: Callable[[], None]) -> list[Sample]:
        """Measure, and record evidence of the bottleneck; calls `ready` before traffic starts."""
        measurement = fitted(self.scenario.measurements, name)
        probe = self.bench.probes(measurement)
        with ExitStack() as stack:
            evidence = EvidenceRecorder(self.lab, name, _ends(measurement), counted(measurement))
            stack.enter_context(evidence)
            backlog = self._backlog(name, measurement)
            if backlog is not None:
                stack.enter_context(backlog)
            convergence = self._convergence(name, measurement)
            if convergence is not None:
                stack.enter_context(convergence)

            def begun() -> None:
                ready()
                if (later := offset(self.scenario.measurements, name)) > 0:
                    self.bench.sleep(later)
                evidence.begin()
                if backlog is not None:
                    backlog.begin()
                if convergence is not None:
                    convergence.begin()
                self.timeline.start()

            found = probe.measure(Context(self.lab, name, self.raw, begun, self.scenario.disrupted))
            if convergence is not None:
                found += convergence.finish(_switched(self.timeline))
            waiting = backlog.finish() if backlog is not None else ()
            return [*found, *waiting, *evidence.finish()]

    def _backlog(self, name: str, measurement: Measurement) -> Backlog | None:
        """The recorder of queues, where a time series finer than a second is wanted."""
        if isinstance(measurement, Iperf3) and measurement.interval < 1:
            return Backlog(self.lab, name, float(measurement.interval), measurement.seconds)
        return None

    def _convergence(self, name: str, measurement: Measurement) -> Convergence | None:
        """The recorder of failover times of a bulk transfer, if events take something down."""
        if isinstance(measurement, Iperf3) and self.scenario.disrupted:
            return Convergence(self.lab, name, measurement, self.scenario.topology)
        return None


def _switched(timeline: Timeline) -> list[Switched]:
    """Elements that events took down or brought back so far."""
    return [
        Switched(each.moment, each.event.element, each.event.change.up)
        for each in timeline.done()
        if each.event.change.up is not None and each.error is None
    ]


def _ends(measurement: Measurement) -> tuple[str, str]:
    """Both nodes of a measurement."""
    source, target = measurement.source, measurement.target
    return source.partition(".")[0], target.partition(".")[0]


def _died(lab: Lab) -> tuple[str, ...]:
    """Daemons that died since the lab was created."""
    return tuple(
        f"daemon {name} died and was restarted (restarts: {daemon.restarts})"
        for name, daemon in lab.daemons.items()
        if daemon.restarts
    )
