"""The path program in a process of its own.

Its state, such as the solver's basis and what was measured, is there. If it dies or takes too long,
it is started again with nothing but the history of changes; gateways keep their groups meanwhile.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from hawser.optimise.measured import Measured, Reading
from hawser.optimise.members import Groups
from hawser.optimise.solver import ProgramError
from hawser.optimise.switching import Rules, Switching, Verdict
from hawser.optimise.wan import Pair, Wan

_PATIENCE_S: Final = 60.0
"""The largest network takes some 10 s the first time."""
_NICE: Final = 10
"""The API and the gateways' connections come first."""


@dataclass(frozen=True)
class Question:
    """What there is to decide on."""

    now: float
    """Seconds, of the clock of the readings."""
    declared: Wan
    pairs: tuple[Pair, ...]
    """Branches whose groups are chosen."""
    readings: tuple[Reading, ...]
    groups: Groups
    """Groups of these pairs."""


@dataclass(frozen=True)
class Answer:
    """A verdict, and what it follows from."""

    verdict: Verdict
    wan: Wan
    demand: Mapping[Pair, float]


class Planning:
    """What the process does with one question after the other."""

    def __init__(self, rules: Rules, last_hour: Mapping[Pair, Sequence[float]]) -> None:
        self._measured = Measured()
        self._switching = Switching(rules, last_hour)

    def answer(self, asked: Question) -> Answer:
        """Decide.

        Raises:
            ProgramError: the solver has failed.
        """
        self._measured.take(asked.declared, asked.readings)
        others = self._measured.loads_of_others(asked.pairs, asked.now)
        wan = self._measured.wan(asked.declared, asked.now).without(others)
        demand = self._measured.demand(asked.pairs, asked.now)
        return Answer(self._switching.consider(asked.now, wan, demand, asked.groups), wan, demand)


class Planner:
    """The process. To be used by one thread at a time."""

    def __init__(self, rules: Rules, patience_s: float = _PATIENCE_S) -> None:
        self._rules = rules
        self._patience_s = patience_s
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    @property
    def number(self) -> int | None:
        """Number of the process; None while there is none."""
        return self._process.pid if self._process else None

    def ask(self, asked: Question, last_hour: Mapping[Pair, Sequence[float]]) -> Answer:
        """Have the process decide; start it where there is none.

        Args:
            asked: the question.
            last_hour: when groups were replaced in the last hour, for a process that is started.

        Raises:
            ProgramError: the solver or the process has failed; the next question starts another.
        """
        pipe, found = self._pipe or self._start(last_hour), None
        try:
            pipe.send(asked)
            if pipe.poll(self._patience_s):
                found = pipe.recv()
        except (EOFError, OSError) as error:
            self.stop()
            raise ProgramError("the planner's process has ended") from error
        if found is None:
            self.stop()
            raise ProgramError(f"the planner has not answered for {self._patience_s:.0f} s")
        if isinstance(found, str):
            raise ProgramError(found)
        assert isinstance(found, Answer)  # noqa: S101 (the process sends nothing else)
        return found

    def _start(self, last_hour: Mapping[Pair, Sequence[float]]) -> Connection:
        context = multiprocessing.get_context("spawn")  # a fork would have the service's sockets
        ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(theirs, self._rules, dict(last_hour)), daemon=True, name="planner"
        )
        self._process.start()
        theirs.close()
        self._pipe = ours
        return ours

    def stop(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _work(pipe: Connection, rules: Rules, last_hour: Mapping[Pair, Sequence[float]]) -> None:
    """Answer questions until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then ends this
    os.nice(_NICE)
    planning = Planning(rules, last_hour)
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(planning.answer(asked))
        except ProgramError as error:
            pipe.send(str(error))
