"""When path groups are replaced: only for a gain that holds, and not too often. With the reason.

Two branches are short when the optimum gives them more than their groups do now, by at least
`Rules.gain` of what they demand. Groups are replaced once somebody has been short for
`Rules.hold_s`; at once where groups carry nothing at all. The groups of those that are short are
replaced alone if that brings most of the gain, else all that differ from the optimum's and matter.
Groups of those that are short get more paths where nothing is measured (`exploration`).
Two branches whose groups were replaced `Rules.per_hour` times in an hour keep them until that is no
longer so.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hawser.optimise.carried import carried
from hawser.optimise.exploration import explored
from hawser.optimise.members import Groups, Way, groups, reverse, route
from hawser.optimise.program import MEGABIT, Flows, Program
from hawser.optimise.utility import utility
from hawser.optimise.wan import ANY, Demand, Pair, Wan
from hawser.spec.route import Hop

_HOUR_S: Final = 3600.0
_NET: Final = 0.5
"""Least share of what some gain that has to be left after what others lose."""
_MOST: Final = 0.8
"""Share of the whole gain with which the replacement of a few groups is enough."""
_MATTERS: Final = 0.01
"""Share of all demand below which groups are not replaced to make room for others."""
_DEAD: Final = 0.01
"""Groups that carry less than this share of the demand are replaced at once."""
_OTHER: Final = 0.1
"""A rate that differs by less than this share is not given as a cause."""


@dataclass(frozen=True)
class Rules:
    """How slowly groups follow the optimum."""

    gain: float = 0.1
    """Least gain, as a share of the demand of two branches."""
    hold_s: float = 3.0
    """How long there has to be one."""
    per_hour: int = 12
    """Most replacements of the groups of two branches in an hour."""


@dataclass(frozen=True)
class Change:
    """A group that is replaced. Rates are bit/s, both directions together."""

    pair: Pair
    before: tuple[Way, ...]
    after: tuple[Way, ...]
    demanded: float
    carries: float
    """What the group carries at best, by what is measured now."""
    will_carry: float
    all_carry: float
    """The same for all pairs together."""
    all_will_carry: float
    held_s: float
    causes: tuple[str, ...]
    """What has changed since the group was chosen."""

    @property
    def reason(self) -> str:
        """Say why, with the figures."""
        text = (
            f"{self.pair[0]} and {self.pair[1]} demand {_mbit(self.demanded)}, their paths carry"
            f" {_mbit(self.carries)}, the new ones {_mbit(self.will_carry)} Mbit/s; all pairs"
            f" together {_mbit(self.all_carry)}, then {_mbit(self.all_will_carry)} Mbit/s"
        )
        causes = f"; {', '.join(self.causes)}" if self.causes else ""
        return f"{text}; so for {self.held_s:.1f} s{causes}"


@dataclass(frozen=True)
class Verdict:
    """What became of one look at the measurements."""

    changes: tuple[Change, ...]
    best: Flows
    """The optimum."""
    now: Flows
    """What the groups carry now."""
    waiting: str = ""
    """Why a better plan is not installed; empty where there is none."""


@dataclass
class _Chosen:
    """What was measured when a group was chosen."""

    tunnels: Mapping[Hop, float]
    demanded: float


class Switching:
    """Looks at measurements again and again, and says which groups are to be replaced."""

    def __init__(
        self, rules: Rules, last_hour: Mapping[Pair, Iterable[float]] | None = None
    ) -> None:
        """Begin.

        Args:
            rules: how slowly to follow.
            last_hour: when groups were replaced before, by the clock of `consider`.
        """
        self._rules = rules
        self._times = {pair: deque(times) for pair, times in (last_hour or {}).items()}
        """When groups were replaced in the last hour."""
        self._program = Program()
        self._since: float | None = None
        """Since when somebody is short."""
        self._chosen: dict[Pair, _Chosen] = {}

    def consider(self, now: float, wan: Wan, demand: Demand, current: Groups) -> Verdict:
        """Compare the groups with the optimum.

        Args:
            now: seconds, of a clock that never goes back.
            wan: measured ports and tunnels.
            demand: bit/s by pair of branches.
            current: the groups in force.

        Raises:
            ProgramError: the solver has failed.
        """
        best, have = self._program.solve(wan, demand), carried(wan, demand, current)
        for pair in current:
            self._chosen.setdefault(pair, _Chosen(wan.tunnels, _both(demand, pair)))
        wanted = groups(best, wan)
        if wan.bounds != ANY:  # the program knows hops, not the tunnels of each path
            best = carried(wan, demand, wanted)
        short = self._short(wanted, wan, demand, best, have)
        if not short:
            self._since = None
            return Verdict((), best, have)
        self._since = since = now if self._since is None else self._since
        held = now - since
        dead = [p for p in short if _both(have.rates, p) < _DEAD * _both(demand, p)]
        if held < self._rules.hold_s and not dead:
            return Verdict((), best, have, f"{_names(short)} could carry more for {held:.1f} s")
        allowed = [p for p in short if self._may_change(p, now)]
        if not allowed:
            text = f"{_names(short)} could carry more, but changed {self._rules.per_hour} times"
            return Verdict((), best, have, f"{text} in the last hour")
        chosen, after = self._enough(now, wan, demand, current, wanted, allowed, best)
        chosen = {
            pair: explored(pair, ways, best, wan) if pair in short else ways
            for pair, ways in chosen.items()
        }
        self._since = None
        changes = tuple(
            self._change(now, p, wan, demand, (current.get(p, ()), chosen[p]), (have, after), held)
            for p in sorted(chosen)
        )
        return Verdict(changes, best, have)

    def _short(
        self, wanted: Iterable[Pair], wan: Wan, demand: Demand, best: Flows, have: Flows
    ) -> list[Pair]:
        """Give who would gain much, unless others lose about as much: optima are not unique."""
        found, gained = [], 0.0
        for pair in wanted:
            gains = [self._gain(each, wan, demand, best, have) for each in (pair, pair[::-1])]
            if any(gains):
                found.append(pair)
                gained += sum(gains)
        return found if best.objective - have.objective > _NET * gained else []

    def _gain(self, pair: Pair, wan: Wan, demand: Demand, best: Flows, have: Flows) -> float:
        """Give how much more utility a pair has in the optimum, Mbit/s; 0 where it is not short."""
        wanted = min(demand.get(pair, 0.0), wan.alone(pair))
        after, before = best.rates.get(pair, 0.0), have.rates.get(pair, 0.0)
        if wanted <= 0 or after - before < self._rules.gain * wanted:
            return 0.0
        return (utility(after, wanted) - utility(before, wanted)) / MEGABIT

    def _may_change(self, pair: Pair, now: float) -> bool:
        times = self._times.setdefault(pair, deque())
        while times and times[0] <= now - _HOUR_S:
            times.popleft()
        return len(times) < self._rules.per_hour

    def _enough(
        self,
        now: float,
        wan: Wan,
        demand: Demand,
        current: Groups,
        wanted: Groups,
        short: Iterable[Pair],
        best: Flows,
    ) -> tuple[Groups, Flows]:
        """Give the groups to replace, and what all carry then."""
        few = {pair: wanted[pair] for pair in short}
        after = carried(wan, demand, {**current, **few})
        have = carried(wan, demand, current).objective
        if after.objective - have >= _MOST * (best.objective - have):
            return few, after
        least = _MATTERS * sum(demand.values())
        all_ = few | {
            pair: ways
            for pair, ways in wanted.items()
            if set(ways) != set(current.get(pair, ()))
            and _both(demand, pair) >= least
            and self._may_change(pair, now)
        }
        return all_, carried(wan, demand, {**current, **all_})

    def _change(
        self,
        now: float,
        pair: Pair,
        wan: Wan,
        demand: Demand,
        paths: tuple[tuple[Way, ...], tuple[Way, ...]],
        flows: tuple[Flows, Flows],
        held: float,
    ) -> Change:
        have, after = flows
        last = self._chosen.get(pair)
        causes = tuple(_causes(last, wan, _both(demand, pair), paths[0])) if last else ()
        self._chosen[pair] = _Chosen(wan.tunnels, _both(demand, pair))
        self._times.setdefault(pair, deque()).append(now)
        return Change(
            pair=pair,
            before=paths[0],
            after=paths[1],
            demanded=_both(demand, pair),
            carries=_both(have.rates, pair),
            will_carry=_both(after.rates, pair),
            all_carry=have.total,
            all_will_carry=after.total,
            held_s=held,
            causes=causes,
        )


def _causes(last: _Chosen, wan: Wan, demanded: float, ways: Iterable[Way]) -> Iterable[str]:
    """Say which rates have changed since the group was chosen."""
    if abs(demanded - last.demanded) > _OTHER * last.demanded:
        yield f"the demand was {_mbit(last.demanded)} Mbit/s when these paths were chosen"
    for tunnel in dict.fromkeys(t for way in ways for each in (way, reverse(way)) for t in each):
        now, then = wan.tunnels.get(tunnel, 0.0), last.tunnels.get(tunnel, 0.0)
        if not wan.admits((tunnel,)):
            yield f"{route((tunnel,))} {_refusal(wan, tunnel)}"
            continue
        if now != then and not abs(now - then) <= _OTHER * then:  # then may be infinite
            yield f"{route((tunnel,))} has {_mbit(now)} Mbit/s, then {_mbit(then)}"


def _refusal(wan: Wan, tunnel: Hop) -> str:
    found, bounds = wan.quality(tunnel), wan.bounds
    texts = []
    if found.loss > bounds.loss:
        texts.append(f"loses {100 * found.loss:.2g} % (SLA: {100 * bounds.loss:.2g} %)")
    if found.delay > bounds.delay:
        texts.append(f"has a delay of {1e3 * found.delay:.3g} ms (SLA: {1e3 * bounds.delay:.3g})")
    return " and ".join(texts)


def _both(rates: Mapping[Pair, float], pair: Pair) -> float:
    return rates.get(pair, 0.0) + rates.get(pair[::-1], 0.0)


def _names(pairs: Iterable[Pair]) -> str:
    found = [f"{one}-{other}" for one, other in pairs]
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def _mbit(rate: float) -> str:
    return f"{rate / MEGABIT:.3g}" if math.isfinite(rate) else "no limit"
