"""A run bundle: the folder that holds all of one run.

    workflow.yaml        the file as given, and the files it extends
    resolved.json        the workflow with every variant resolved
    texts/               its models and traces, see `hawser.store.texts`
    manifest.json        see `hawser.store.manifest`
    trials/0001-<variant>/
        trial.json       see `TrialRecord`
        samples.jsonl    one `Sample` a line
        raw/ logs/ config/
    samples.parquet      all samples, see `hawser.store.table`

A trial is written under a temporary name and renamed when it is complete, so every numbered folder
is a finished trial. A run that dies loses only the trial in progress.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hawser.spec import renamed
from hawser.spec.workflow import Labels, Workflow
from hawser.store import files, texts
from hawser.store.errors import BundleError
from hawser.store.lock import held
from hawser.store.manifest import Manifest, TrialRecord
from hawser.store.sample import Sample

if TYPE_CHECKING:
    from hawser.stats.void import Trials

MANIFEST = "manifest.json"
RESOLVED = "resolved.json"
TRIALS = "trials"
TRIAL = "trial.json"
SAMPLES = "samples.jsonl"
PARQUET = "samples.parquet"

State = Literal["running", "incomplete", "done", "failed"]

_TRIAL_FOLDER = re.compile(r"\d{4,}-[a-z0-9.-]*")


@dataclass(frozen=True)
class Trial:
    """A finished trial on disk."""

    path: Path
    record: TrialRecord

    def samples(self) -> tuple[Sample, ...]:
        """Read the samples.

        Raises:
            BundleError: a line is damaged; the message names it.
        """
        file = self.path / SAMPLES
        lines = files.read(file).splitlines()
        return tuple(
            files.parse(file, line, Sample, f"line {number}")
            for number, line in enumerate(lines, start=1)
        )


@dataclass(frozen=True)
class Bundle:
    """A run bundle, opened for reading."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Open a run's folder.

        Raises:
            BundleError: the folder is not a run, or its manifest is damaged.
        """
        if not path.is_dir():
            raise BundleError(path, "no such run: expected the folder of a run")
        if not (path / MANIFEST).is_file():
            raise BundleError(path, f"not the folder of a run: it has no {MANIFEST}")
        return cls(path, files.read_model(path / MANIFEST, Manifest))

    @cached_property
    def workflow(self) -> Workflow:
        """The resolved workflow; an earlier version may have written it with old names."""
        file = self.path / RESOLVED
        whole = texts.joined(files.read(file), self.path)
        return files.parse(file, renamed.resolved(whole), Workflow)

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The finished trials, in the order in which they ran."""
        return finished(self.path)

    @property
    def state(self) -> State:
        """`running`, `done`, `failed`, or `incomplete` if the process that ran it died."""
        state = self.manifest.state
        return "incomplete" if state == "running" and not held(self.path) else state

    def problems(self) -> tuple[str, ...]:
        """Reasons not to rely on the run; empty for a valid run."""
        valid = {_key(trial.record.variant) for trial in self.trials if trial.record.valid}
        planned = {_key(place.variant): place.variant for place in self.manifest.order}
        missing = len(self.manifest.order) - len(self.trials)
        return (
            *([f"the run is {self.state}"] if self.state != "done" else []),
            *([f"{missing} of {len(self.manifest.order)} trials are missing"] if missing else []),
            *(f"no valid trial of {label(v)}" for key, v in planned.items() if key not in valid),
            *self._void(),
        )

    def _void(self) -> tuple[str, ...]:
        """How void trials may have biased the run."""
        if all(trial.record.valid for trial in self.trials):
            return ()
        from hawser.stats.void import problems  # imports scipy

        planned = {_key(place.variant): place.variant for place in self.manifest.order}
        return problems({label(v): self._trials(key) for key, v in planned.items()})

    def _trials(self, variant: frozenset[tuple[str, str]]) -> Trials:
        from hawser.stats.void import Trials

        records = [t.record for t in self.trials if _key(t.record.variant) == variant]
        repeats = {place.repeat for place in self.manifest.order if _key(place.variant) == variant}
        valid = [record for record in records if record.valid]
        return Trials(
            repeats=len(repeats),
            done=len({record.repeat for record in valid}),
            valid=len(valid),
            void=len(records) - len(valid),
        )


def finished(bundle: Path) -> tuple[Trial, ...]:
    """Read the finished trials of a run's folder, by number.

    Raises:
        BundleError: a trial's record is damaged, or two claim the same number.
    """
    folders = sorted(p for p in (bundle / TRIALS).glob("[0-9]*") if _TRIAL_FOLDER.fullmatch(p.name))
    trials = sorted(
        (Trial(p, files.read_model(p / TRIAL, TrialRecord)) for p in folders),
        key=lambda trial: trial.record.trial,
    )
    for one, next_one in pairwise(trials):
        if one.record.trial == next_one.record.trial:
            raise BundleError(next_one.path, f"trial {one.record.trial} exists twice")
    return tuple(trials)


def label(variant: Labels) -> str:
    """Name a variant in one line: its values, or `all` if nothing is varied."""
    return " / ".join(variant.values()) or "all"


def folder_name(number: int, variant: Labels) -> str:
    """Name of a trial's folder: its number, and its variant reduced to a safe file name."""
    slug = re.sub(r"[^a-z0-9.]+", "-", label(variant).lower()).strip("-.")[:60]
    return f"{number:04d}-{slug}"


def _key(variant: Labels) -> frozenset[tuple[str, str]]:
    return frozenset(variant.items())
