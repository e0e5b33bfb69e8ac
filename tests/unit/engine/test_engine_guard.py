"""Trials wait for their turn and for a quiet machine, and are void where it was not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_fakes import Failures, FakeDriver, Silent, bench, workflow
from test_engine_run import carry_out

from hawser.engine.errors import BusyError
from hawser.engine.guard import MachineGuard
from hawser.node.turn import VARIABLE, Turns
from hawser.probe.quiet import Load
from hawser.store import Bundle

QUIET = Load(cores=2, others=0.1, steal=0, cpu_wait=0, memory_wait=0)
BUSY = Load(cores=2, others=1.9, steal=0, cpu_wait=0, memory_wait=0)
SAID = "others use 1.9 of 2 processors"


@pytest.fixture(autouse=True)
def _own_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


class Machine:
    """A machine that is busy at these looks, of half a second each, and quiet later."""

    def __init__(self, busy: str) -> None:
        self._busy: Iterator[str] = iter(busy)
        self.now = 0.0
        self.looks = 0

    def look(self) -> Load:
        self.now += 0.5
        self.looks += 1
        return BUSY if next(self._busy, ".") == "x" else QUIET

    def guard(self, folder: Path, patience: float = 600) -> MachineGuard:
        turns = Turns("run a", place=folder / "turns")
        return MachineGuard(turns, patience=patience, look=self.look, clock=lambda: self.now)


def run(folder: Path, guard: MachineGuard, seen: Silent) -> Bundle:
    driver = FakeDriver(folder / "labs")
    return carry_out(folder, workflow("a"), bench(driver, Failures(), guard=guard), seen)


def test_a_quiet_machine_is_measured_at_once(tmp_path: Path) -> None:
    seen, machine = Silent(), Machine("")
    bundle = run(tmp_path, machine.guard(tmp_path), seen)
    assert [trial.record.valid for trial in bundle.trials] == [True] * 3
    assert all(trial.record.waited.quiet == 0 for trial in bundle.trials)
    assert machine.looks == 6  # before and after each trial
    assert seen.waits == []


def test_a_trial_waits_for_a_quiet_moment_and_says_so(tmp_path: Path) -> None:
    seen, machine = Silent(), Machine("xxx.")
    bundle = run(tmp_path, machine.guard(tmp_path), seen)
    first = bundle.trials[0].record
    assert first.valid
    assert (first.waited.quiet, first.waited.disturbed) == (1.5, "")
    assert seen.waits == [f"{SAID}: waiting for a quiet moment, at most 60 s"]


def test_a_wait_is_bounded_and_what_is_measured_then_is_void(tmp_path: Path) -> None:
    seen, machine = Silent(), Machine("x" * 10_000)
    bundle = run(tmp_path, machine.guard(tmp_path, patience=100), seen)
    records = [trial.record for trial in bundle.trials]
    assert not any(record.valid for record in records)
    assert records[0].reason == f"the machine was not quiet when the trial began: {SAID}"
    assert records[0].waited.quiet == pytest.approx(60, abs=1)
    assert records[0].waited.disturbed == SAID
    assert sum(record.waited.quiet for record in records) == pytest.approx(100, abs=2)
    assert bundle.problems()
    assert any("the trial will be void (--patience 0 does not look)" in one for one in seen.waits)


def test_what_begins_during_a_trial_makes_it_void(tmp_path: Path) -> None:
    bundle = run(tmp_path, Machine(".xx").guard(tmp_path), Silent())
    records = [trial.record for trial in bundle.trials]
    assert records[0].reason == f"the machine was not quiet when the trial ended: {SAID}"
    assert [record.valid for record in records] == [False, True, True, True]


def test_remains_of_the_lab_do_not_disturb_it(tmp_path: Path) -> None:
    bundle = run(tmp_path, Machine(".x.").guard(tmp_path), Silent())
    assert all(trial.record.valid for trial in bundle.trials)


def test_without_patience_nothing_is_looked_at(tmp_path: Path) -> None:
    machine = Machine("x" * 100)
    bundle = run(tmp_path, machine.guard(tmp_path, patience=0), Silent())
    assert all(trial.record.valid for trial in bundle.trials)
    assert machine.looks == 0


def test_within_the_turn_of_another_process_nothing_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    machine = Machine("x" * 100)
    run(tmp_path, machine.guard(tmp_path), Silent())
    assert machine.looks == 0


def test_a_run_ends_where_another_measurement_does_not(tmp_path: Path) -> None:
    machine = Machine("")
    others = Turns("bench tunnel", place=tmp_path / "turns")
    waiting = Turns("run a", place=tmp_path / "turns", longest=0)
    guard = MachineGuard(waiting, look=machine.look)
    with others.take(), pytest.raises(BusyError, match="bench tunnel"):
        run(tmp_path, guard, Silent())
    assert machine.looks == 0
