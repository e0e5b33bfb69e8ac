"""The path program in a process of its own.

Its state, such as the solver's basis and what was measured, is there. If it dies or takes too long,
it is started again with nothing but the history of changes; gateways keep their groups meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hawser.controller.paths.apart import Answering, Apart
from hawser.optimise.measured import Estimate, Measured, Reading
from hawser.optimise.members import Groups
from hawser.optimise.switching import Rules, Switching, Verdict
from hawser.optimise.wan import ANY, Bounds, Pair, Wan
from hawser.spec.route import Hop

_PATIENCE_S: Final = 60.0
"""The largest network takes some 10 s the first time."""


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
    bounds: Bounds = ANY
    """What their paths have to offer."""
    trains: Mapping[Hop, Estimate] = field(default_factory=dict)
    """What trains found of tunnels."""


@dataclass(frozen=True)
class Answer:
    """A verdict, and what it follows from."""

    verdict: Verdict
    wan: Wan
    demand: Mapping[Pair, float]
    unknown: tuple[Hop, ...] = ()
    """Idle tunnels of which nothing is measured, those that the optimum uses first."""


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
        wan = self._measured.wan(asked.declared, asked.now, asked.trains).without(others)
        wan = wan.within(asked.bounds, self._measured.qualities(asked.now))
        demand = self._measured.demand(asked.pairs, asked.now)
        verdict = self._switching.consider(asked.now, wan, demand, asked.groups)
        loads = verdict.best.loads
        known = asked.trains.keys()
        idle = self._measured.idle(asked.declared, asked.now)
        unknown = sorted(wan.unmeasured & idle - known, key=lambda hop: (-loads.get(hop, 0.0), hop))
        return Answer(verdict, wan, demand, tuple(unknown))


def _begin(rules: Rules, last_hour: Mapping[Pair, Sequence[float]]) -> Answering:
    return Planning(rules, last_hour).answer


class Planner:
    """The process. To be used by one thread at a time."""

    def __init__(self, rules: Rules, patience_s: float = _PATIENCE_S) -> None:
        self._rules = rules
        self._apart = Apart("planner", _begin, patience_s)

    @property
    def number(self) -> int | None:
        """Number of the process; None while there is none."""
        return self._apart.number

    def ask(self, asked: Question, last_hour: Mapping[Pair, Sequence[float]]) -> Answer:
        """Have the process decide; start it where there is none.

        Args:
            asked: the question.
            last_hour: when groups were replaced in the last hour, for a process that is started.

        Raises:
            ProgramError: the solver or the process has failed; the next question starts another.
        """
        found = self._apart.ask(asked, self._rules, dict(last_hour))
        assert isinstance(found, Answer)  # noqa: S101 (the process sends nothing else)
        return found

    def stop(self) -> None:
        """End the process."""
        self._apart.stop()
