"""The loop over all samples of a bench."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from harness.bench import Bench, Case, SampleError, order
from harness.samples import Samples
from harness.usage import busy_share, niced_share
from hawser.node.turn import Turns

_QUIET_SHARE = 0.15
_NICED_SHARE = 0.05
_QUIET_WINDOW_S = 0.3


@dataclass(frozen=True)
class Failure:
    """A sample that could not be taken, with the reason."""

    peer: str
    workload: str
    round: int
    reason: str


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run. `disturbed` counts those of `taken` samples that other users disturbed."""

    samples: Samples
    failures: tuple[Failure, ...]
    taken: int
    disturbed: int
    minutes: float

    @property
    def rounds(self) -> int:
        """Planned number of measurements per case."""
        return self.samples.rounds


class Patience:
    """Ensures that samples are taken while nobody else uses the machine.

    It waits for a quiet machine before each sample, and repeats a sample that niced processes
    disturbed. Those belong to other users, because nothing that is measured is niced. Once it has
    spent `budget` seconds in total, it stops waiting and repeating.
    """

    def __init__(
        self,
        budget: float,
        *,
        read: Callable[[], str] = Path("/proc/stat").read_text,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = budget
        self._read = read
        self._sleep = sleep
        self._clock = clock

    def undisturbed(self, take: Callable[[], None]) -> bool:
        """Repeat `take` until it runs undisturbed; False if the budget runs out first."""
        while True:
            quiet = self._wait()
            began, before = self._clock(), self._read()
            take()
            if quiet and niced_share(before, self._read()) < _NICED_SHARE:
                return True
            self._left -= self._clock() - began
            if self._left <= 0:
                return False

    def _wait(self) -> bool:
        """Wait for a quiet machine; return whether it became quiet."""
        while True:
            before = self._read()
            self._sleep(_QUIET_WINDOW_S)
            if busy_share(before, self._read()) < _QUIET_SHARE:
                return True
            self._left -= _QUIET_WINDOW_S
            if self._left <= 0:
                return False


def run(
    bench: Bench,
    console: Console,
    *,
    rounds: int,
    seed: int,
    patience: Patience,
    turns: Turns,
) -> Outcome:
    """Measure every case of the bench `rounds` times, in a random order.

    A sample that fails is recorded and retried once at the end, because a shared machine can cause
    a single failure. Each sample is a turn: nothing else is measured on the machine meanwhile.

    Raises:
        TurnError: another measurement lasts too long.
    """
    samples, began = Samples(rounds), time.monotonic()
    taking = _Taking(samples, console, patience, turns)
    plan = order(bench.cases(), rounds, seed)
    taking.all(taking.all(plan))
    bench.derive(samples)
    minutes = (time.monotonic() - began) / 60
    return Outcome(samples, tuple(taking.failures), taking.taken, taking.disturbed, minutes)


Plan = Sequence[tuple[int, Case]]
"""Cases to measure, each with its round."""


@dataclass
class _Taking:
    """Takes samples and records failures."""

    samples: Samples
    console: Console
    patience: Patience
    turns: Turns
    failures: list[Failure] = field(default_factory=list)
    taken: int = 0
    disturbed: int = 0

    def all(self, plan: Plan) -> Plan:
        """Take these samples; return the ones that failed."""
        failed = []
        with _progress(self.console) as progress:
            task = progress.add_task("", total=len(plan))
            for round_, case in plan:
                progress.update(task, description=f"{case.peer}, {case.workload}")
                if not self._one(round_, case):
                    failed.append((round_, case))
                progress.advance(task)
        return failed

    def _one(self, round_: int, case: Case) -> bool:
        with self.turns.take(partial(self.console.print, markup=False, highlight=False)):
            sample, quiet = _take(case, self.patience)
        failure = _keep(sample, self.samples, round_, case)
        self.failures += [failure] if failure else []
        self.taken += 1
        self.disturbed += not quiet
        _report(self.console, case, round_, self.samples.rounds, failure)
        return failure is None


Sample = Mapping[str, float] | SampleError | OSError


def _take(case: Case, patience: Patience) -> tuple[Sample, bool]:
    """Values of a case, or why there are none; and whether the sample was undisturbed."""
    taken: list[Sample] = []

    def take() -> None:
        try:
            taken.append(case.measure())
        except (SampleError, OSError) as reason:
            taken.append(reason)

    quiet = patience.undisturbed(take)
    return taken[-1], quiet


def _keep(sample: Sample, samples: Samples, round_: int, case: Case) -> Failure | None:
    if isinstance(sample, Exception):
        return Failure(case.peer, case.workload, round_, str(sample))
    samples.add(case.peer, round_, sample)
    return None


def _report(
    console: Console, case: Case, round_: int, rounds: int, failure: Failure | None
) -> None:
    """Print a line per sample if there is no terminal for a bar; always print failures."""
    if failure or not console.is_terminal:
        outcome = f"failed: {failure.reason}" if failure else "done"
        text = f"round {round_ + 1}/{rounds}: {case.peer}, {case.workload}: {outcome}"
        console.print(text, markup=False, highlight=False)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:40.40}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
