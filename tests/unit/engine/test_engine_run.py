"""Runs without a network: what is void, what is tried again, what a resume keeps."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from engine_fakes import Failures, FakeDriver, Silent, bench, workflow

from hawser.engine import run as running
from hawser.engine.errors import InputError, Interrupted
from hawser.engine.plan import plan
from hawser.engine.run import Runner
from hawser.engine.trial import Bench
from hawser.node.base import NodeError
from hawser.overlay.lab.facts import Facts
from hawser.probe.base import Context
from hawser.spec.units import Duration, Rate
from hawser.spec.workflow import Change, Event, Workflow
from hawser.store import Bundle, BundleError, RunWriter
from hawser.store.machine import this_machine
from hawser.store.manifest import Environment

START = datetime(2026, 1, 2, tzinfo=UTC)
HERE = Environment(machine=this_machine(), kernel={"net.mptcp.enabled": "1"})


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "labs")


def begin(folder: Path, wanted: Workflow) -> RunWriter:
    return running.create(
        wanted,
        plan(wanted, Facts()),
        Environment(machine=this_machine()),
        runs=folder,
        sources={"workflow.yaml": b"hawser: 1"},
        command=["hawser", "run"],
        started=datetime(2026, 1, 1, tzinfo=UTC),
    )


def carry_out(
    folder: Path, wanted: Workflow, equipment: Bench, observer: Silent | None = None
) -> Bundle:
    with begin(folder, wanted) as writer:
        return Runner(writer, plan(wanted, Facts()), equipment, observer or Silent()).run()


def test_all_trials_are_run_interleaved_and_labs_removed(
    tmp_path: Path, driver: FakeDriver
) -> None:
    bundle = carry_out(tmp_path, workflow("a", "b"), bench(driver, Failures()))
    assert (bundle.state, bundle.problems()) == ("done", ())
    counts = Counter(trial.record.variant["which"] for trial in bundle.trials)
    assert counts == {"a": 3, "b": 3}
    assert len(driver.deployed) == 6
    assert not driver.standing
    assert (bundle.trials[0].path / "logs" / "gw1.log").read_text() == "ready\n"


def test_a_void_trial_has_its_reason_and_is_run_again(tmp_path: Path, driver: FakeDriver) -> None:
    seen = Silent()
    bundle = carry_out(tmp_path, workflow("a", "b"), bench(driver, Failures(2)), seen)
    void = [trial.record for trial in bundle.trials if not trial.record.valid]
    assert [record.reason for record in void] == ["ping h1 -> h2: none of 4 echoes was answered"]
    assert seen.void == [(2, void[0].reason)]
    assert len(bundle.trials) == 7
    assert len(bundle.manifest.order) == 7
    again = bundle.trials[-1].record
    assert (again.variant, again.repeat, again.valid) == (void[0].variant, void[0].repeat, True)
    assert bundle.problems() == ()


def test_a_lab_that_is_not_as_planned_makes_its_trials_void(
    tmp_path: Path, driver: FakeDriver
) -> None:
    def broken(_: Context) -> float:
        driver.faults = ("cross traffic: cross-traffic-x1-forward ended",)
        return 1.0

    observer = Silent()
    bundle = carry_out(tmp_path, workflow("a"), bench(driver, broken), observer)
    assert bundle.state == "failed"
    fault, *others = (reason for _, reason in observer.void)
    assert fault == "cross traffic: cross-traffic-x1-forward ended"
    assert set(others) == {f"before the first measurement: {fault}"}


def test_nothing_is_measured_in_a_lab_that_is_not_as_planned(
    tmp_path: Path, driver: FakeDriver
) -> None:
    def measured(_: Context) -> float:
        pytest.fail("it was measured")

    driver.faults = ("tunnel process 7 ended",)
    observer = Silent()
    bundle = carry_out(tmp_path, workflow("a"), bench(driver, measured), observer)
    assert bundle.state == "failed"
    said = "before the first measurement: tunnel process 7 ended"
    assert {reason for _, reason in observer.void} == {said}


def test_a_failed_deployment_makes_a_trial_void(tmp_path: Path, driver: FakeDriver) -> None:
    driver.deploy_errors = ["no room for another namespace"]
    bundle = carry_out(tmp_path, workflow("a", repeat=1), bench(driver, Failures()))
    assert [t.record.reason for t in bundle.trials] == [
        "deploy: no room for another namespace",
        None,
    ]


def test_a_variant_that_always_fails_is_given_up_and_the_run_fails(
    tmp_path: Path, driver: FakeDriver
) -> None:
    bundle = carry_out(tmp_path, workflow("a", repeat=9), bench(driver, Failures(*range(99))))
    assert bundle.state == "failed"
    assert len(bundle.trials) == 3
    assert "no valid trial of a" in bundle.problems()


def test_a_mistake_in_a_probe_is_not_hidden_and_the_lab_is_removed(
    tmp_path: Path, driver: FakeDriver
) -> None:
    def broken(_: Context) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        carry_out(tmp_path, workflow("a"), bench(driver, broken))
    assert not driver.standing


def test_a_lab_that_cannot_be_removed_ends_the_run(tmp_path: Path, driver: FakeDriver) -> None:
    class Sticky(FakeDriver):
        def destroy(self, name: str) -> None:
            if name in self.standing:
                raise NodeError("process 7 does not end")

    with pytest.raises(NodeError, match="does not end"):
        carry_out(tmp_path, workflow("a"), bench(Sticky(tmp_path), Failures()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_a_resume_finishes_it(
    tmp_path: Path, driver: FakeDriver, number: int
) -> None:
    wanted = workflow("a", "b")
    equipment = bench(driver, _signalled(number, at=3))
    writer = begin(tmp_path, wanted)
    with equipment.signals.handled(), pytest.raises(Interrupted), writer:
        Runner(writer, plan(wanted, Facts()), equipment, Silent()).run()
    assert not driver.standing
    assert Bundle.open(writer.path).state == "incomplete"
    assert len(Bundle.open(writer.path).trials) == 2
    bundle, seen = _resume(writer.path, wanted, bench(driver, Failures()))
    assert seen.kept == 2
    assert len(bundle.trials) == 6
    assert bundle.problems() == ()
    assert bundle.manifest.order == plan(wanted, Facts()).order
    (resumed,) = bundle.manifest.resumed
    assert (resumed.started, resumed.machine) == (START, this_machine())
    assert resumed.kernel != bundle.manifest.kernel == {}
    assert resumed.revision == bundle.manifest.revision


def _signalled(number: int, at: int) -> Callable[[Context], float]:
    calls = iter(range(1, 99))

    def measure(_: Context) -> float:
        if next(calls) == at:
            os.kill(os.getpid(), number)
        return 1.0

    return measure


def _resume(path: Path, wanted: Workflow, equipment: Bench) -> tuple[Bundle, Silent]:
    seen = Silent()
    with running.take_up(path, wanted, HERE, START) as writer:
        return Runner(writer, plan(wanted, Facts()), equipment, seen).run(), seen


def test_a_signal_while_a_lab_is_removed_waits(tmp_path: Path) -> None:
    class Signalling(FakeDriver):
        def destroy(self, name: str) -> None:
            if name in self.standing:
                os.kill(os.getpid(), signal.SIGINT)
            super().destroy(name)

    driver = Signalling(tmp_path / "labs")
    equipment = bench(driver, Failures())
    with equipment.signals.handled(), pytest.raises(Interrupted):
        carry_out(tmp_path, workflow("a"), equipment)
    assert not driver.standing


def test_a_resume_of_another_workflow_is_refused(tmp_path: Path, driver: FakeDriver) -> None:
    bundle = carry_out(tmp_path, workflow("a"), bench(driver, Failures()))
    with pytest.raises(InputError, match="made from another workflow"):
        running.take_up(bundle.path, workflow("a", repeat=4), HERE, START)


def test_a_run_that_is_being_written_cannot_be_resumed(tmp_path: Path) -> None:
    wanted = workflow("a")
    with begin(tmp_path, wanted) as writer, pytest.raises(BundleError, match="another process"):
        running.take_up(writer.path, wanted, HERE, START)


def test_a_resume_tries_given_up_variants_again(tmp_path: Path, driver: FakeDriver) -> None:
    wanted = workflow("a", repeat=2)
    failed = carry_out(tmp_path, wanted, bench(driver, Failures(*range(99))))
    assert failed.state == "failed"
    bundle, _ = _resume(failed.path, wanted, bench(driver, Failures()))
    assert bundle.problems() == ()
    valid = [(t.record.repeat) for t in bundle.trials if t.record.valid]
    assert sorted(valid) == [1, 2]


def test_events_happen_and_are_written_down(tmp_path: Path, driver: FakeDriver) -> None:
    events = tuple(
        Event(at=Duration(at), element="link:x", change=Change(rate=Rate(rate)))
        for at, rate in ((0.05, 2e6), (0.02, 1e6))
    )
    wanted = workflow("a", repeat=1, events=events)
    equipment = bench(driver, _waiting(driver, 2))
    bundle = carry_out(tmp_path, wanted, equipment)
    assert [change.rate for _, change in driver.applied] == [1e6, 2e6]
    rows = json.loads((bundle.trials[0].path / "raw" / "events.json").read_text())
    assert [row["planned"] for row in rows] == [0.02, 0.05]
    assert all(0 <= row["at"] - row["planned"] < 0.1 for row in rows)


def _waiting(driver: FakeDriver, events: int) -> Callable[[Context], float]:
    """Measure until so many events have happened."""

    def measure(_: Context) -> float:
        for _ in range(500):
            if len(driver.applied) >= events:
                break
            signal.sigtimedwait([], 0.01)
        return 1.0

    return measure


def test_an_event_that_fails_makes_the_trial_void(tmp_path: Path, driver: FakeDriver) -> None:
    event = Event(at=Duration(0.01), element="link:x", change=Change(up=False))
    driver.apply_error = "no element 'link:x'"
    wanted = workflow("a", repeat=1, events=(event,))
    bundle = carry_out(tmp_path, wanted, bench(driver, _waiting(driver, 1)))
    assert bundle.trials[0].record.reason == "event at 10 ms: no element 'link:x'"


def test_an_event_that_came_too_late_makes_the_trial_void(
    tmp_path: Path, driver: FakeDriver
) -> None:
    event = Event(at=Duration(0.19), element="link:x", change=Change(up=False))
    wanted = workflow("a", repeat=1, events=(event,))
    bundle = carry_out(tmp_path, wanted, bench(driver, Failures()))
    reason = bundle.trials[0].record.reason or ""
    assert "190 ms came after the last measurement" in reason


def test_an_event_after_the_end_is_refused() -> None:
    event = Event(at=Duration(60), element="link:x", change=Change(up=False))
    with pytest.raises(InputError, match=r"found 1 min, expected less than the 0\.3 s"):
        plan(workflow("a", events=(event,)), Facts())


def test_the_settling_time_is_kept(tmp_path: Path, driver: FakeDriver) -> None:
    slept: list[float] = []
    equipment = dataclasses.replace(bench(driver, Failures()), settle=1.5, sleep=slept.append)
    carry_out(tmp_path, workflow("a", repeat=2), equipment)
    assert slept == [1.5, 1.5]
