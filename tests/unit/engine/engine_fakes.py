"""A driver without a network and probes without traffic: for the logic of runs only."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from hawser.driver.base import ControllerAccess, Daemon, DriverError, LabInfo
from hawser.engine.guard import Guard, Unguarded
from hawser.engine.signals import ProcessSignals
from hawser.engine.trial import Bench
from hawser.node.base import Node
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe.base import Context, Probe, ProbeError
from hawser.spec.measurement import Measurement, Ping
from hawser.spec.topology import Link, Topology
from hawser.spec.topology import Node as NodeSpec
from hawser.spec.workflow import Change, Event, Labels, Scenario, Variant, Workflow
from hawser.store.machine import this_machine
from hawser.store.manifest import Environment, TrialPlan
from hawser.store.sample import Sample


def workflow(*variants: str, repeat: int = 3, events: tuple[Event, ...] = ()) -> Workflow:
    """Two nodes and a cable; the variants differ by name only."""
    topology = Topology(
        nodes={"h1": NodeSpec(), "h2": NodeSpec()}, links={"x": Link(ends=("h1.p", "h2.p"))}
    )
    ping = Ping.model_validate({"probe": "ping", "from": "h1", "to": "h2", "count": 3})
    scenario = Scenario(topology=topology, measurements={"rtt": ping}, events=events)
    return Workflow(
        name="fake",
        title="No traffic",
        repeat=repeat,
        variants=tuple(Variant(labels={"which": name}, scenario=scenario) for name in variants),
    )


@dataclass
class FakeLab:
    """Stands for a deployed plan."""

    name: str
    plan: NetworkPlan
    driver: FakeDriver
    nodes: Mapping[str, Node] = field(default_factory=dict)
    daemons: Mapping[str, Daemon] = field(default_factory=dict)

    onboarding: float | None = None
    access: ControllerAccess | None = None

    def apply(self, element: str, change: Change) -> float:
        self.driver.applied.append((element, change))
        if self.driver.apply_error:
            raise DriverError(self.driver.apply_error)
        return time.monotonic()

    @property
    def hawserd(self) -> Path:
        raise DriverError("hawserd is not built")

    def describe(self) -> LabInfo:
        return LabInfo(self.name, "supervised")

    def collect(self, folder: Path) -> None:
        (folder / "logs").mkdir()
        (folder / "logs" / "gw1.log").write_text("ready\n")

    def faults(self) -> tuple[str, ...]:
        return self.driver.faults

    def destroy(self) -> None:
        self.driver.destroy(self.name)


@dataclass
class FakeDriver:
    """Remembers what was asked of it."""

    root: Path
    standing: set[str] = field(default_factory=set)
    deployed: list[str] = field(default_factory=list)
    applied: list[tuple[str, Change]] = field(default_factory=list)
    deploy_errors: list[str] = field(default_factory=list)
    """One is raised by each deployment, while there are any."""
    apply_error: str = ""
    faults: tuple[str, ...] = ()
    """What labs say of themselves."""
    acquired: int = 0
    """Runs that have it now."""

    def facts(self) -> Facts:
        return Facts()

    def environment(self) -> Environment:
        return Environment(machine=this_machine())

    def acquire(self) -> FakeDriver:
        self.acquired += 1
        return self

    def release(self) -> None:
        assert not self.standing
        self.acquired -= 1

    def check_name(self, name: str) -> None:
        pass

    def missing(self, plan: NetworkPlan, tools: Collection[str] = ()) -> tuple[str, ...]:
        return ()

    def deploy(self, name: str, plan: NetworkPlan) -> FakeLab:
        if name in self.standing:
            raise DriverError(f"lab {name} exists")
        if self.deploy_errors:
            raise DriverError(self.deploy_errors.pop(0))
        self.standing.add(name)
        self.deployed.append(name)
        return FakeLab(name, plan, self)

    def attach(self, name: str) -> FakeLab:
        raise DriverError(f"lab {name}: there is none of that name")

    def labs(self) -> tuple[str, ...]:
        return tuple(sorted(self.standing))

    def destroy(self, name: str) -> None:
        self.standing.discard(name)


class FakeProbe:
    """Gives a number, or fails."""

    def __init__(self, action: Callable[[Context], float]) -> None:
        self._action = action

    def measure(self, context: Context) -> list[Sample]:
        context.started()
        value = self._action(context)
        return [Sample(measurement=context.measurement, metric="rtt", unit="ms", value=value)]

    def seconds(self) -> float:
        return 0.3

    def tools(self) -> tuple[str, ...]:
        return ()


class Failures:
    """Lets the trials with these numbers (counted from 1, in the order they run) fail."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self.calls = 0

    def __call__(self, context: Context) -> float:
        self.calls += 1
        if self.calls in self._numbers:
            raise ProbeError("ping h1 -> h2: none of 4 echoes was answered")
        return float(self.calls)


def bench(
    driver: FakeDriver, action: Callable[[Context], float], guard: Guard | None = None
) -> Bench:
    def probes(_: Measurement) -> Probe:
        return FakeProbe(action)

    return Bench(
        driver=driver,
        fleet=driver,
        lab="fake-0000",
        settle=0.0,
        stage=lambda _: None,
        probes=probes,
        sleep=lambda _: None,
        signals=ProcessSignals(),
        guard=guard or Unguarded(),
    )


class Silent:
    """Remembers what a run said."""

    def __init__(self) -> None:
        self.void: list[tuple[int, str]] = []
        self.trials: list[Labels] = []
        self.kept = 0
        self.waits: list[str] = []

    def begun(self, run: Path, done: int, trials: int, seconds: float) -> None:
        self.kept = done

    def trial(self, trial: TrialPlan, seconds: float) -> None:
        self.trials.append(trial.variant)

    def waiting(self, why: str) -> None:
        self.waits.append(why)

    def stage(self, name: str) -> None:
        pass

    def ended(self, trial: TrialPlan, void: str | None, trials: int, seconds: float) -> None:
        assert seconds >= 0
        if void is not None:
            self.void.append((trial.trial, void))


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `execute` measure without traffic."""

    def probes(_: Measurement) -> Probe:
        return FakeProbe(lambda _: 1.0)

    monkeypatch.setattr("hawser.engine.execute.Bench", partial(Bench, probes=probes))
