"""When alarms are raised and cleared: only for what lasts, and ever more slowly what flaps. Pure.

A condition counts the seconds for which it has lasted, and loses half of the seconds for which it
was absent: one that comes and goes in equal parts is raised too, a little later. An alarm is
cleared when its condition has been absent for `Rule.clear_after`, doubled, up to 16 times, for each
time that the same alarm was cleared in the hour before it was raised (compare RFC 2439).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hawser.controller.alarms.condition import RULES, Condition, Kind, Level

_LONGEST_S: Final = 10.0
"""Most that one look counts: a controller that was suspended has seen nothing."""
_FORGIVEN: Final = 0.5
"""Seconds that one second of absence takes away."""
_MOST_FLAPS: Final = 4


@dataclass(frozen=True)
class Open:
    """An alarm that is raised."""

    number: int
    key: str
    kind: Kind
    level: Level
    branches: tuple[str, ...]
    affected: int
    flaps: int
    """How often the same alarm was cleared in the hour before."""


@dataclass(frozen=True)
class Decision:
    """What is to be done about alarms."""

    raised: tuple[Condition, ...] = ()
    cleared: tuple[Open, ...] = ()
    changed: tuple[tuple[Open, Condition], ...] = ()
    """Alarms with another level, or another number of paths."""

    def __bool__(self) -> bool:
        return bool(self.raised or self.cleared or self.changed)


class Dampening:
    """Looks at conditions again and again."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._lasted: dict[str, tuple[Kind, float]] = {}
        """Kind, and for how many seconds it has lasted, of conditions without an alarm."""
        self._absent: dict[str, float] = {}
        """For how many seconds the conditions of alarms have been absent."""

    def decide(
        self,
        now: float,
        conditions: Mapping[str, Condition],
        alarms: Iterable[Open],
        is_judged: Callable[[Kind, tuple[str, ...]], bool],
    ) -> Decision:
        """Decide.

        Args:
            now: seconds, of a clock that never goes back.
            conditions: what is wrong now, by key.
            alarms: those that are raised, whichever controller has raised them.
            is_judged: whether a kind of condition of some branches would be seen here.
        """
        passed = 0.0 if self._last is None else min(max(0.0, now - self._last), _LONGEST_S)
        self._last = now
        known = {each.key: each for each in alarms}
        raised = tuple(self._raised(passed, conditions, known))
        absent = [
            each
            for key, each in known.items()
            if key not in conditions and is_judged(each.kind, each.branches)
        ]
        self._absent = {each.key: self._absent.get(each.key, 0.0) + passed for each in absent}
        return Decision(
            raised,
            tuple(each for each in absent if self._absent[each.key] >= clear_after(each)),
            tuple(
                (each, conditions[key])
                for key, each in known.items()
                if key in conditions and _differs(each, conditions[key])
            ),
        )

    def _raised(
        self, passed: float, conditions: Mapping[str, Condition], known: Mapping[str, Open]
    ) -> Iterable[Condition]:
        lasted: dict[str, tuple[Kind, float]] = {}
        for key, (kind, seconds) in self._lasted.items():
            left = seconds - _FORGIVEN * passed
            if key not in conditions and key not in known and left > 0:
                lasted[key] = kind, left
        for key, condition in conditions.items():
            if key in known:
                continue
            before = self._lasted.get(key)
            # The first look tells only that it is there now.
            seconds = 0.0 if before is None else before[1] + passed
            if seconds >= RULES[condition.kind].raise_after:
                yield condition
            lasted[key] = condition.kind, seconds
        self._lasted = lasted


def clear_after(alarm: Open) -> float:
    """Give how long the condition of an alarm has to be absent, seconds."""
    return RULES[alarm.kind].clear_after * 2.0 ** min(alarm.flaps, _MOST_FLAPS)


def _differs(alarm: Open, condition: Condition) -> bool:
    return (alarm.level, alarm.affected) != (condition.level, condition.affected)
