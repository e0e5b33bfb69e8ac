"""The runs in a folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from hawser.spec.model import Model
from hawser.store import notes
from hawser.store.bundle import MANIFEST, Bundle
from hawser.store.errors import BundleError
from hawser.store.notes import Note


class RunInfo(Model):
    """One line of the list of runs."""

    run: str
    path: Path
    workflow: str = ""
    state: str
    """`running`, `incomplete`, `done`, `failed`, or `damaged` if the bundle cannot be read."""
    started: datetime | None = None
    finished: datetime | None = None
    planned: int = 0
    """Trials planned."""
    trials: int = 0
    """Trials finished, valid or not."""
    void: int = 0
    """Finished trials that are not valid."""
    valid: bool = False
    problems: tuple[str, ...] = ()
    """Reasons not to rely on the run."""
    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def runs(folder: Path) -> tuple[RunInfo, ...]:
    """List the runs in a folder, newest first. Anything that is not a run is skipped."""
    found = [p for p in folder.glob("*") if not p.name.startswith(".") and (p / MANIFEST).is_file()]
    listed = [_info(path) for path in sorted(found)]
    return tuple(
        sorted(listed, key=lambda r: r.started.timestamp() if r.started else 0.0, reverse=True)
    )


def _info(path: Path) -> RunInfo:
    try:
        bundle = Bundle.open(path)
        problems = bundle.problems()
        added = notes.read(path)
    except BundleError as error:
        return RunInfo(run=path.name, path=path, state="damaged", problems=(str(error),))
    manifest, trials = bundle.manifest, bundle.trials
    return RunInfo(
        run=manifest.run,
        path=path,
        workflow=manifest.workflow,
        state=bundle.state,
        started=manifest.started,
        finished=manifest.finished,
        planned=len(manifest.order),
        trials=len(trials),
        void=sum(not trial.record.valid for trial in trials),
        valid=not problems,
        problems=problems,
        tags=added.tags,
        notes=added.notes,
    )
