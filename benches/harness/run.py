"""The loop over all samples of a bench."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from harness.usage import busy_share

_QUIET_SHARE = 0.15
_QUIET_WINDOW_S = 0.3


@dataclass(frozen=True)
class Failure:
    """A sample that could not be taken."""

    peer: str
    workload: str
    round: int
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What happened: `taken` counts samples, `disturbed` those that began on a busy machine."""

    samples: Samples
    failures: tuple[Failure, ...]
    taken: int
    disturbed: int
    minutes: float

    @property
    def rounds(self) -> int:
        """How often each case was to be measured."""
        return self.samples.rounds


class Patience:
    """Waits for a quiet machine, `budget` seconds in all."""

    def __init__(
        self,
        budget: float,
        *,
        read: Callable[[], str] = Path("/proc/stat").read_text,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._left = budget
        self._read = read
        self._sleep = sleep

    def quiet(self) -> bool:
        """Wait until others use less than 15 % of the machine; False when the budget is used up."""
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
    lock: Path | None = None,
) -> Outcome:
    """Measure every case of the bench `rounds` times, in a random order.

    A sample that fails is noted, and the bench goes on. With `lock`, each sample holds that file
    locked: two benches on one machine then take turns.
    """
    samples, failures, disturbed = Samples(rounds), list[Failure](), 0
    plan, began = order(bench.cases(), rounds, seed), time.monotonic()
    with _progress(console) as progress:
        task = progress.add_task("", total=len(plan))
        for round_, case in plan:
            progress.update(task, description=f"{case.peer}, {case.workload}")
            with _held(lock):
                disturbed += not patience.quiet()
                failure = _take(samples, round_, case)
            failures += [failure] if failure else []
            progress.advance(task)
            _report(console, case, round_, rounds, failure)
    bench.derive(samples)
    minutes = (time.monotonic() - began) / 60
    return Outcome(samples, tuple(failures), len(plan), disturbed, minutes)


def _take(samples: Samples, round_: int, case: Case) -> Failure | None:
    try:
        samples.add(case.peer, round_, case.measure())
    except (SampleError, OSError) as reason:
        return Failure(case.peer, case.workload, round_, str(reason))
    return None


def _report(
    console: Console, case: Case, round_: int, rounds: int, failure: Failure | None
) -> None:
    """One line a sample where there is no terminal to show a bar on; failures always."""
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


@contextlib.contextmanager
def _held(lock: Path | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
