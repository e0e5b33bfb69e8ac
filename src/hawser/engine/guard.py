"""What comes before each trial: the turn to measure on this machine, and a quiet moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from hawser.engine.errors import BusyError
from hawser.node.turn import TurnError, Turns, inherited
from hawser.probe import quiet
from hawser.store.manifest import Waited

PATIENCE: Final = 600.0
"""Seconds that a run waits for quiet moments in all, where nothing else is said."""
TRIAL_PATIENCE: Final = 60.0
"""Seconds of these that one trial may take."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Turn:
    """The machine is ours for one trial."""

    waited: Waited
    disturbed: Callable[[], str] = lambda: ""
    """Says after the trial what other programs did to it; empty if little."""


class Guard(Protocol):
    """Protects measurements from each other and from other programs."""

    def turn(self, say: Say) -> AbstractContextManager[Turn]:
        """Hold the machine for a trial.

        Raises:
            BusyError: another measurement lasts too long.
        """


class Unguarded:
    """Measures at once, whatever the machine does."""

    @contextmanager
    def turn(self, say: Say) -> Iterator[Turn]:
        """Wait for nothing."""
        yield Turn(Waited())


class MachineGuard:
    """One measurement at a time on this machine, each begun in a quiet moment if there is one."""

    def __init__(
        self,
        turns: Turns,
        *,
        patience: float = PATIENCE,
        look: Callable[[], quiet.Load] = quiet.look,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to guard the trials of a run.

        Args:
            turns: of this run.
            patience: seconds to wait for quiet moments in all; 0 does not look at the machine.
            look: watches the machine for a moment.
            clock: monotonic seconds.
        """
        self._turns = turns
        self._looks = patience > 0
        self._left = patience
        self._look = look
        self._clock = clock

    @contextmanager
    def turn(self, say: Say) -> Iterator[Turn]:
        """Wait for the turn, then for a quiet moment until patience is spent."""
        with ExitStack() as stack:
            try:
                waited = stack.enter_context(self._turns.take(say))
            except TurnError as error:
                raise BusyError(str(error)) from error
            if not self._looks or inherited():
                yield Turn(Waited(turn=waited))
                return
            seconds, disturbs = self._quiet(say)
            yield Turn(
                Waited(turn=waited, quiet=seconds, disturbed=disturbs),
                lambda: self._disturbed(disturbs),
            )

    def _quiet(self, say: Say) -> tuple[float, str]:
        """Seconds waited, and what still disturbs then."""
        limit = min(self._left, TRIAL_PATIENCE)
        waited = 0.0
        if not (disturbs := self._look().disturbs):
            return 0.0, ""
        began = self._clock()
        if limit > 0:
            say(f"{disturbs}: waiting for a quiet moment, at most {limit:.0f} s")
        while disturbs and waited < limit:
            disturbs = self._look().disturbs
            waited = self._clock() - began
        self._left = max(0.0, self._left - waited)
        if disturbs:
            say(f"{disturbs}: the trial will be void (--patience 0 does not look)")
        return waited, disturbs

    def _disturbed(self, before: str) -> str:
        """A look at the end finds what began in between; a second one spares our own remains."""
        if before:
            return f"the machine was not quiet when the trial began: {before}"
        if self._look().disturbs and (after := self._look().disturbs):
            return f"the machine was not quiet when the trial ended: {after}"
        return ""
