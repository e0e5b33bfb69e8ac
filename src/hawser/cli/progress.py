"""Progress of a run: a bar with the time left on a terminal, otherwise a few lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn

from hawser.cli.output import duration, say
from hawser.store import label
from hawser.store.manifest import TrialPlan


class Lines:
    """A few plain lines: the start, and void trials."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def begun(self, run: Path, done: int, trials: int, seconds: float) -> None:
        """Say where results go and how long it takes."""
        say(_beginning(run, done, trials, seconds))

    def trial(self, trial: TrialPlan, seconds: float) -> None:
        """Nothing to say."""

    def waiting(self, why: str) -> None:
        """Say why nothing happens."""
        say(why)

    def stage(self, name: str) -> None:
        """Nothing to say."""

    def ended(self, trial: TrialPlan, void: str | None, trials: int, seconds: float) -> None:
        """Say why a trial is void."""
        if void is not None:
            say(_voided(trial, void))


class Bar:
    """One bar over all trials, with the current activity and the time left."""

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._began = self._trial_ends = clock()
        self._after = 0.0
        """Seconds that the trials after the current one take."""
        self._trials = 0
        self._trial = ""
        self._console = console or Console(stderr=True, highlight=False)
        self._progress = _ClockedProgress(
            self._now,
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
        )
        self._task = self._progress.add_task("", total=1.0, left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begun(self, run: Path, done: int, trials: int, seconds: float) -> None:
        """Start the bar."""
        self._console.print(_beginning(run, done, trials, seconds), markup=False)
        self._trials, self._after = trials, seconds

    def trial(self, trial: TrialPlan, seconds: float) -> None:
        """Show the next trial."""
        self._trial_ends = self._clock() + seconds
        self._after = max(0.0, self._after - seconds)
        self._trial = f"trial {trial.trial}/{self._trials}  {label(trial.variant)}"

    def waiting(self, why: str) -> None:
        """Say why nothing happens."""
        self._console.print(why, markup=False)

    def stage(self, name: str) -> None:
        """Show the current activity."""
        self._progress.update(self._task, description=escape(f"{self._trial}  {name}"))

    def ended(self, trial: TrialPlan, void: str | None, trials: int, seconds: float) -> None:
        """Correct the time left."""
        if void is not None:
            self._console.print(_voided(trial, void), markup=False)
        self._trials, self._after, self._trial_ends = trials, seconds, self._clock()

    def _now(self) -> tuple[float, str]:
        """The share that is done, and the time left."""
        if not self._trials:
            return 0.0, ""
        now = self._clock()
        done, left = now - self._began, max(0.0, self._trial_ends - now) + self._after
        return (done / (done + left) if done > 0 else 0.0), f"{duration(left)} left"


class _ClockedProgress(Progress):
    """Computes the progress whenever it is drawn."""

    def __init__(
        self,
        now: Callable[[], tuple[float, str]],
        *columns: ProgressColumn,
        console: Console,
    ) -> None:
        self._now = now  # set first: the constructor below draws it once
        super().__init__(*columns, console=console, transient=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn now."""
        for task in self.task_ids:
            share, left = self._now()
            self.update(task, completed=share, left=left)
        yield from super().get_renderables()


def _beginning(run: Path, done: int, trials: int, seconds: float) -> str:
    kept = f", {done} done already" if done else ""
    return f"{run}: {trials} trials{kept}, about {duration(seconds)}"


def _voided(trial: TrialPlan, reason: str) -> str:
    return f"trial {trial.trial} ({label(trial.variant)}) is void: {reason}"


def observer() -> Lines | Bar:
    """A bar if standard error is a terminal, otherwise lines."""
    return Bar() if sys.stderr.isatty() else Lines()
