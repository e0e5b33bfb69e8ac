"""All stages of a run in sequence: plan, check the machine, run, end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hawser.driver.base import Driver, Fleet
from hawser.engine import plan as planning
from hawser.engine import run as running
from hawser.engine.against import with_program
from hawser.engine.errors import BusyError, Interrupted, LackingError
from hawser.engine.guard import Guard, MachineGuard, Unguarded
from hawser.engine.run import Observer, Runner, lab_name
from hawser.engine.signals import Signals
from hawser.engine.trial import Bench
from hawser.node.turn import Turns
from hawser.probe import quiet
from hawser.spec import Workflow
from hawser.store import Bundle, RunWriter, notes
from hawser.store.environment import version


@dataclass(frozen=True)
class Request:
    """What to run, and where to put the results."""

    workflow: Workflow
    files: Mapping[str, bytes]
    """The workflow file and those it extends; not needed to resume."""
    runs: Path
    """Folder of all runs."""
    resume: Path | None
    """A bundle to continue, instead of creating one."""
    command: Sequence[str]
    """The command line, for the manifest."""
    tags: Sequence[str] = ()
    """Tags that the run gets."""
    against: str | None = None
    """Id of the earlier run whose variants the workflow has beside its own."""
    before: Path | None = None
    """Build of `hawserd` for these."""
    patience: float | None = None
    """Seconds to wait for quiet moments in all. None: trials neither wait nor take turns."""


def execute(request: Request, driver: Driver, observer: Observer, signals: Signals) -> Bundle:
    """Carry out a run from its plan to its end, in any thread; one process can do several in turn.

    Args:
        request: what is run.
        driver: where it is run.
        observer: told how it goes on.
        signals: what may tell it to end.

    Raises:
        InputError: the workflow cannot be carried out, or is not the resumed run's.
        LackingError: this machine lacks something; nothing was done.
        StoreError: the bundle cannot be written.
        Interrupted: told to end; the lab is removed and the run can be resumed.
        NodeError: a lab could not be removed.
        BusyError: another measurement lasts too long; the run can be resumed.
    """
    planning.check_filters(request.workflow)
    planned = with_program(planning.plan(request.workflow, driver.facts()), request.before)
    if lacks := planning.missing(planned, driver):
        raise LackingError(lacks)
    with signals.handled(), _writer(request, planned, driver) as writer:
        if request.tags:
            notes.tag(writer.path, add=request.tags)
        try:
            with _fleet(driver, signals) as fleet:
                bench = Bench(
                    driver=driver,
                    fleet=fleet,
                    lab=lab_name(writer.manifest),
                    settle=float(request.workflow.settle),
                    stage=observer.stage,
                    sleep=signals.sleep,
                    signals=signals,
                    guard=_guard(request, writer, signals),
                )
                return Runner(writer, planned, bench, observer).run()
        except Interrupted as told:
            raise Interrupted(told.signal, writer.path) from told
        except BusyError as busy:
            raise BusyError(str(busy), writer.path) from busy


def _guard(request: Request, writer: RunWriter, signals: Signals) -> Guard:
    if request.patience is None:
        return Unguarded()
    turns = Turns(f"run {writer.manifest.run}", sleep=signals.sleep)
    return MachineGuard(turns, patience=request.patience, look=lambda: quiet.look(signals.sleep))


@contextmanager
def _fleet(driver: Driver, signals: Signals) -> Iterator[Fleet]:
    """Machines for as long as the block runs."""
    fleet = driver.acquire()
    try:
        yield fleet
    finally:
        with signals.shielded():
            fleet.release()


def _writer(request: Request, planned: planning.Plan, driver: Driver) -> RunWriter:
    started = datetime.now(UTC).replace(microsecond=0)
    environment = driver.environment()
    if request.before is not None:
        tools = environment.tools | {"hawserd (before)": version(request.before)}
        environment = environment.model_copy(update={"tools": tools})
    if request.resume is not None:
        return running.take_up(request.resume, request.workflow, environment, started)
    return running.create(
        request.workflow,
        planned,
        environment,
        runs=request.runs,
        sources=request.files,
        command=request.command,
        started=started,
        against=request.against,
    )
