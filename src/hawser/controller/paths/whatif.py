"""What would be if: the plan of another network, of fewer branches, of more traffic.

Nothing is installed. It is computed in a process of its own, as the planner's plans are.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from hawser.controller.errors import Conflict
from hawser.controller.paths.apart import Answering, Apart
from hawser.controller.paths.planner import Answer, Question
from hawser.optimise.carried import carried
from hawser.optimise.measured import Measured
from hawser.optimise.members import Groups, groups
from hawser.optimise.program import Flows, Program
from hawser.optimise.wan import Bounds, Demand, Pair, Wan

_PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Known:
    """What is measured now."""

    wan: Wan
    demand: Demand


@dataclass(frozen=True)
class Supposed:
    """A network that is supposed, and its traffic."""

    wan: Wan
    demand: Demand
    kept: Groups
    """The groups in force, as far as their ports are still there."""


@dataclass(frozen=True)
class Outcome:
    """What would become of it."""

    kept: Flows
    """What the groups in force would carry."""
    best: Flows
    """What the best ones would."""
    plan: Groups
    """The best ones."""


def known(asked: Question, answer: Answer | None) -> Known:
    """Give what is measured: by the planner, else by the newest reports alone."""
    if answer is not None:
        return Known(answer.wan, answer.demand)
    measured = Measured()
    measured.take(asked.declared, asked.readings)
    others = measured.loads_of_others(asked.pairs, asked.now)
    wan = measured.wan(asked.declared, asked.now).without(others)
    wan = Wan(wan.ports, wan.tunnels, asked.bounds, measured.qualities(asked.now))
    return Known(wan, measured.demand(asked.pairs, asked.now))


def supposed(
    now: Known,
    old: Wan,
    new: Wan,
    kept: Groups,
    pairs: Collection[Pair],
    bounds: Bounds,
    lost: Collection[str],
    factor: float,
) -> Supposed:
    """Put together what is supposed.

    Args:
        now: what is measured.
        old: ports and tunnels that are declared now.
        new: those of the network that is supposed.
        kept: the groups in force.
        pairs: branches whose paths would be chosen.
        bounds: what paths have to offer in that network.
        lost: branches that are gone, for their own traffic and as transits.
        factor: by how much there is more traffic.
    """
    ports = {
        stop: now.wan.ports[stop]
        if stop in now.wan.ports and old.ports.get(stop) == limits
        else limits
        for stop, limits in new.ports.items()
        if stop.branch not in lost
    }
    tunnels = {
        tunnel: now.wan.tunnels[tunnel]
        if tunnel in now.wan.tunnels
        and old.tunnels.get(tunnel) == rate
        and now.wan.admits((tunnel,))
        else rate
        for tunnel, rate in new.tunnels.items()
        if all(stop in ports for stop in tunnel)
    }
    both = {each for pair in pairs for each in (pair, pair[::-1])}
    demand = {
        pair: factor * rate
        for pair, rate in now.demand.items()
        if pair in both and lost_none(pair, lost)
    }
    usable = {
        pair: tuple(way for way in ways if all(hop in tunnels for hop in way))
        for pair, ways in kept.items()
        if pair in both and lost_none(pair, lost)
    }
    wan = Wan(ports, tunnels).within(bounds, now.wan.qualities)
    return Supposed(wan, demand, usable)


def lost_none(pair: Pair, lost: Collection[str]) -> bool:
    """Tell whether both branches are still there."""
    return pair[0] not in lost and pair[1] not in lost


def outcome(asked: Supposed) -> Outcome:
    """Solve the path program of what is supposed.

    Raises:
        ProgramError: the solver has failed.
    """
    best = Program().solve(asked.wan, asked.demand)
    return Outcome(carried(asked.wan, asked.demand, asked.kept), best, groups(best, asked.wan))


def _begin() -> Answering:
    return outcome


class WhatIf:
    """Computes one outcome at a time, in a process of its own. Threads may share it."""

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self._apart = Apart("what-if", _begin, patience_s)
        self._lock = threading.Lock()

    def ask(self, asked: Supposed) -> Outcome:
        """Give the outcome.

        Raises:
            Conflict: another one is being computed.
            ProgramError: the solver or the process has failed.
        """
        if not self._lock.acquire(blocking=False):
            raise Conflict("another question is being answered; ask again")
        try:
            found = self._apart.ask(asked)
        finally:
            self._lock.release()
        assert isinstance(found, Outcome)  # noqa: S101 (the process sends nothing else)
        return found

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._apart.stop()


def both(rates: Mapping[Pair, float], pair: Pair) -> float:
    """Give what two branches send to each other, both directions, bit/s."""
    return rates.get(pair, 0.0) + rates.get(pair[::-1], 0.0)
