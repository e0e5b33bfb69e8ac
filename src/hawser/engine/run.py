"""A run: created or resumed, its trials carried out in order, and ended."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from hawser import __version__
from hawser.engine import schedule
from hawser.engine.errors import InputError
from hawser.engine.pace import Pace
from hawser.engine.plan import Plan, Prepared
from hawser.engine.precision import precise
from hawser.engine.schedule import Progress
from hawser.engine.trial import Bench, run_trial
from hawser.overlay.lab.emulator import seeded
from hawser.probe.environment import revision
from hawser.spec.workflow import Workflow
from hawser.store import Bundle, Manifest, RunWriter
from hawser.store.manifest import Environment, Session, TrialPlan, run_id


class Observer(Protocol):
    """Receives the progress of a run."""

    def begun(self, run: Path, done: int, trials: int, seconds: float) -> None:
        """The run starts, with the number of finished trials and the time of the others."""

    def trial(self, trial: TrialPlan, seconds: float) -> None:
        """A trial starts, with its expected duration."""

    def waiting(self, why: str) -> None:
        """The trial waits before it begins, or has ended to wait."""

    def stage(self, name: str) -> None:
        """Part of a trial: `deploy`, `settle`, a measurement's name, `tear down`."""

    def ended(self, trial: TrialPlan, void: str | None, trials: int, seconds: float) -> None:
        """A trial ended, valid or void for a reason; with the expected time of the others."""


def create(
    workflow: Workflow,
    planned: Plan,
    environment: Environment,
    *,
    runs: Path,
    sources: Mapping[str, bytes],
    command: Sequence[str],
    started: datetime,
    against: str | None = None,
) -> RunWriter:
    """Begin a new run in the folder `runs`.

    Raises:
        BundleError: its folder cannot be made.
    """
    manifest = Manifest(
        run=run_id(workflow.name, started, secrets.randbits(16)),
        workflow=workflow.name,
        title=workflow.title,
        hawser=__version__,
        revision=revision(Path(__file__).parent),
        command=tuple(command),
        started=started,
        machine=environment.machine,
        tools=environment.tools,
        kernel=environment.kernel,
        against=against,
        seed=workflow.seed,
        order=planned.order,
    )
    return RunWriter.create(runs, manifest, workflow, sources)


def take_up(
    bundle: Path, workflow: Workflow, environment: Environment, started: datetime
) -> RunWriter:
    """Continue an unfinished run.

    Raises:
        InputError: it is a run of another workflow, or of this one as it was before.
        BundleError: the folder is no run, or another process is writing it.
    """
    if Bundle.open(bundle).workflow.model_dump_json() != workflow.model_dump_json():
        raise InputError([f"{bundle}: made from another workflow: start a new run instead"])
    writer = RunWriter.resume(bundle)
    session = Session(
        **dict(environment),
        started=started,
        hawser=__version__,
        revision=revision(Path(__file__).parent),
    )
    writer.update(resumed=(*writer.manifest.resumed, session))
    return writer


def lab_name(manifest: Manifest) -> str:
    """Name of a run's labs: the workflow's, and the token of the run's id."""
    return f"{manifest.workflow}-{manifest.run[-4:]}"


class Runner:
    """Carries out the trials of one run."""

    def __init__(self, writer: RunWriter, planned: Plan, bench: Bench, observer: Observer) -> None:
        self._writer = writer
        self._plan = planned
        self._bench = bench
        self._observer = observer
        trials = Bundle.open(writer.path).trials
        self._valid = {trial.record.trial: trial.record.valid for trial in trials}
        self._forgiven = frozenset(self._valid)
        self._pace = Pace()

    def run(self) -> Bundle:
        """Carry out every trial that is left, and end the run.

        Raises:
            Interrupted: told to end; finished trials are kept and the run can be resumed.
            BusyError: another measurement lasts too long; likewise.
            MissingCapability: the machine lacks something.
            NodeError: a lab could not be removed.
        """
        signals, driver, lab = self._bench.signals, self._bench.driver, self._bench.lab
        with signals.shielded():
            driver.destroy(lab)  # remains of a killed run
        try:
            self._trials()
        finally:
            with signals.shielded():
                driver.destroy(lab)
        with signals.shielded():
            return self._end()

    def _trials(self) -> None:
        progress = self._progress()
        left = progress.pending()
        self._observer.begun(
            self._writer.path, len(self._valid), len(progress.planned), self._seconds(left)
        )
        while todo := self._todo():
            self._one(todo)

    def _todo(self) -> TrialPlan | None:
        """The next trial. If none is left, void ones are appended to the order."""
        progress = self._progress()
        if not progress.pending() and (again := progress.retries() or self._more()):
            self._writer.update(order=(*progress.planned, *again))
            progress = self._progress()
        return next(iter(progress.pending()), None)

    def _more(self) -> tuple[TrialPlan, ...]:
        """Further repeats, if the precision wanted needs them."""
        workflow, planned = self._plan.workflow, self._writer.manifest.order
        if workflow.until is None or not any(self._valid.values()):
            return ()
        until, bundle = workflow.until, Bundle.open(self._writer.path)
        done = max(plan.repeat for plan in planned)
        wanted = schedule.repeats(done, until, lambda n: precise(bundle, until, n))
        labels = [variant.labels for variant in workflow.variants]
        return schedule.more(planned, labels, wanted, workflow.seed) if wanted > done else ()

    def _one(self, trial: TrialPlan) -> None:
        prepared = self._plan.of(trial.variant)
        self._observer.trial(trial, self._pace.seconds(prepared.seconds))
        with self._bench.guard.turn(self._observer.waiting) as turn:
            began = time.monotonic()
            with self._writer.trial(trial.trial, trial.variant, trial.repeat) as record:
                record.waited = turn.waited
                run_trial(self._bench, self._seeded(prepared, trial), record)
                if disturbed := turn.disturbed():
                    record.void(disturbed)
            self._pace.record(prepared.seconds, time.monotonic() - began)
        self._valid[trial.trial] = record.reason is None
        progress = self._progress()
        self._observer.ended(
            trial, record.reason, len(progress.planned), self._seconds(progress.pending())
        )

    def _seeded(self, prepared: Prepared, trial: TrialPlan) -> Prepared:
        """Give the plan with the trial's seed, the same whenever the run is repeated."""
        seed = (self._plan.workflow.seed + trial.trial) % 2**63
        return replace(prepared, network=seeded(prepared.network, seed))

    def _progress(self) -> Progress:
        return Progress(self._writer.manifest.order, self._valid, self._forgiven)

    def _seconds(self, trials: Sequence[TrialPlan]) -> float:
        return self._pace.seconds(sum(self._plan.of(trial.variant).seconds for trial in trials))

    def _end(self) -> Bundle:
        self._writer.finish("done")
        problems = Bundle.open(self._writer.path).problems()
        if problems:
            self._writer.update(state="failed", problem="; ".join(problems))
        return Bundle.open(self._writer.path)
