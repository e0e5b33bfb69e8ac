"""Writes a run bundle, so that a crash at any moment loses only the trial in progress."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from hawser.spec.workflow import Labels, Workflow
from hawser.store import files, texts
from hawser.store.bundle import (
    MANIFEST,
    PARQUET,
    RESOLVED,
    SAMPLES,
    TRIAL,
    TRIALS,
    Bundle,
    finished,
    folder_name,
)
from hawser.store.errors import BundleError
from hawser.store.lock import Lock
from hawser.store.manifest import Manifest, TrialRecord, Waited
from hawser.store.sample import Sample

Clock = Callable[[], datetime]


def now() -> datetime:
    """Wall clock, UTC, whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


class TrialWriter:
    """A trial in progress: its folder and the samples recorded so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples: list[Sample] = []
        self.reason: str | None = None
        self.late = False
        self.waited = Waited()
        """What was waited for before the trial. Set by the caller."""

    def folder(self, name: Literal["raw", "logs", "config"]) -> Path:
        """A folder of the trial, made on first use."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def raw(self) -> Path:
        """Folder for the tools' own output."""
        return self.folder("raw")

    def add(self, samples: Iterable[Sample]) -> None:
        """Record samples."""
        self.samples.extend(samples)

    def void(self, reason: str, *, late: bool = False) -> None:
        """Mark the trial as void: it is kept, but enters no statistics.

        The first reason counts, but one that concerns all metrics more than one that does not.

        Args:
            reason: why.
            late: whether only metrics that depend on delay are affected.
        """
        if self.reason is None or (self.late and not late):
            self.reason, self.late = reason, late


class RunWriter:
    """The one process that writes a run. Use as a context manager, or call `close`."""

    def __init__(self, path: Path, clock: Clock = now) -> None:
        """Lock a run's folder for writing; see `create` and `resume`."""
        self._lock = Lock(path)
        self._clock = clock
        self.path = path
        self.manifest = files.read_model(path / MANIFEST, Manifest)
        self._finished = {trial.record.trial for trial in finished(path)}

    @classmethod
    def create(
        cls,
        runs: Path,
        manifest: Manifest,
        workflow: Workflow,
        sources: Mapping[str, bytes],
        clock: Clock = now,
    ) -> Self:
        """Make a new bundle, whole or not at all.

        Args:
            runs: folder of all runs; created if missing.
            manifest: its field `run` names the bundle's folder (see `run_id`).
            workflow: the resolved workflow.
            sources: the workflow file as given and those it extends: file name -> content.
            clock: tells when trials start and end.

        Raises:
            BundleError: the folder exists, or cannot be made.
        """
        final, temporary = runs / manifest.run, runs / (files.TEMPORARY + manifest.run)
        if final.exists():
            raise BundleError(final, "exists already")
        try:
            (temporary / TRIALS).mkdir(parents=True)
            for name, content in sources.items():
                (temporary / Path(name).name).write_bytes(content)
            document, long = texts.split(workflow.model_dump_json(by_alias=True).encode())
            for name, content in {RESOLVED: document, **long}.items():
                (temporary / name).parent.mkdir(exist_ok=True)
                (temporary / name).write_bytes(content)
            (temporary / MANIFEST).write_text(manifest.model_dump_json(indent=1))
            files.publish(temporary, final)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise BundleError(final, error.strerror or str(error)) from error
        return cls(final, clock)

    @classmethod
    def resume(cls, path: Path, clock: Clock = now) -> Self:
        """Resume a run that ended early; remnants of unfinished trials are removed.

        Raises:
            BundleError: the folder is not a run, is damaged, or another process is writing it.
        """
        Bundle.open(path)
        run = cls(path, clock)
        for leftover in (path / TRIALS).glob(files.TEMPORARY + "*"):
            shutil.rmtree(leftover)
        run.update(state="running", finished=None, problem=None)
        return run

    def finished(self) -> frozenset[int]:
        """Numbers of the trials that need not be run again."""
        return frozenset(self._finished)

    def update(self, **changes: object) -> None:
        """Change fields of the manifest, atomically."""
        changed = Manifest.model_validate(self.manifest.model_dump() | changes)
        files.write(self.path / MANIFEST, changed.model_dump_json(indent=1).encode())
        self.manifest = changed

    @contextmanager
    def trial(self, number: int, variant: Labels, repeat: int) -> Iterator[TrialWriter]:
        """Write one trial; it becomes part of the run when the block ends without an exception.

        Raises:
            BundleError: the trial is finished already.
        """
        final = self.path / TRIALS / folder_name(number, variant)
        if number in self._finished:
            raise BundleError(final, f"trial {number} is finished already")
        work = final.with_name(files.TEMPORARY + final.name)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        writer, started = TrialWriter(work), self._clock()
        yield writer
        record = TrialRecord(
            trial=number,
            variant=variant,
            repeat=repeat,
            started=started,
            finished=self._clock(),
            valid=writer.reason is None,
            reason=writer.reason,
            waited=writer.waited,
            late=writer.late,
        )
        lines = "".join(sample.model_dump_json() + "\n" for sample in writer.samples)
        (work / SAMPLES).write_text(lines)
        (work / TRIAL).write_text(record.model_dump_json(indent=1))
        files.publish(work, final)
        self._finished.add(number)

    def compile(self) -> Path:
        """Write `samples.parquet` from the finished trials and return its path."""
        from hawser.store import table  # imports pyarrow

        target = self.path / PARQUET
        files.write(target, table.parquet(Bundle.open(self.path)))
        return target

    def finish(self, state: Literal["done", "failed"], problem: str | None = None) -> None:
        """End the run: compile the samples and record in the manifest how it ended."""
        self.compile()
        self.update(state=state, problem=problem, finished=self._clock())

    def close(self) -> None:
        """Release the lock. A run that is not finished shows as incomplete. Idempotent."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
