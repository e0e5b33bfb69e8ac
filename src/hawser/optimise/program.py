"""The optimum over all paths through at most one transit branch, in the tunnel-load formulation.

Paths are not enumerated: with p ports a branch and n branches, a pair has p^2 + (n - 2) p^4 of
them. Columns are instead

    u[s,d,k]    what a pair carries in piece k of its utility, at most the piece's width
    y[s,d]      its flow on the direct hop, whichever tunnels that uses
    y[s,t,d]    its flow by transit t
    z[i,a,j,b]  load of the tunnel from port a of branch i to port b of j, at most its rate

and rows

    demand      sum of u[s,d,k] <= y[s,d] + sum of y[s,t,d]      each pair
    balance     sum of the flows that use hop i-j <= sum of z[i,a,j,b]      each hop
    egress, ingress      sum of z at a port <= its rate      each port; transit pays at both

The objective is the pairs' utility less the tunnels' costs (`utility`). With many branches only the
transits with the most room are columns at first; others are priced with the rows' dual values after
each solution and added where they gain, so that the optimum is that over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from hawser.optimise.solver import Array, Columns, Solution, Solver, columns_of
from hawser.optimise.utility import PIECES, SLOPES, WIDTHS, costs
from hawser.optimise.wan import ANY, Demand, Pair, Wan
from hawser.spec.route import Hop, Stop

MEGABIT: Final = 1e6
"""The program counts Mbit/s: near 1, where the solver's tolerances are meant to be."""
_ALL_TRANSITS: Final = 24
"""Up to so many branches all transits are columns from the start."""
_FIRST_TRANSITS: Final = 8
"""With more, so many a pair."""
_GAIN: Final = 1e-6
"""A transit that gains less for each bit/s is not added: rounding of dual values."""
_ROUNDS: Final = 20
_NOTHING: Final = 1e-6
"""Flows below so many Mbit/s are rounding."""


@dataclass(frozen=True)
class Flows:
    """An optimum. Rates are bit/s."""

    rates: Mapping[Pair, float]
    """What each pair carries, at most its demand."""
    ways: Mapping[Pair, Mapping[str | None, float]]
    """Its flows by transit branch, None for the direct hop; those that are not zero."""
    loads: Mapping[Hop, float]
    """Loads of tunnels that are not zero."""
    objective: float
    """Utility less costs, in Mbit/s."""
    iterations: int
    """Of the simplex method: few where the last optimum was near."""

    @property
    def total(self) -> float:
        """What all pairs carry together."""
        return sum(self.rates.values())


class Program:
    """A path program that is solved again and again, each time from the last optimum.

    Only what has changed is handed to the solver. Where a port or a tunnel comes or goes, the
    program is built anew; one that has only failed has the rate 0.
    """

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._solver: Solver | None = None
        self._transits = np.empty((0, 2), dtype=int)
        """Pair and transit of each y[s,t,d], in the order of the columns."""

    def solve(self, wan: Wan, demand: Demand) -> Flows:
        """Give the optimum.

        Args:
            wan: measured ports and tunnels.
            demand: bit/s by pair of branches.

        Raises:
            ProgramError: the solver has failed.
        """
        shape, solver = self._for(wan)
        wanted = shape.wanted(wan, demand)
        refused = shape.refused(wan)
        transits = np.where(refused[tuple(self._transits.T)], 0.0, math.inf)
        direct = np.full(len(shape.direct), math.inf)
        parts = [shape.pieces(wanted), shape.rates(wan), direct, transits]
        solver.bound_columns(np.concatenate(parts))
        solver.bound_rows(len(shape.pairs) + len(shape.hops), shape.limits(wan))
        found = solver.solve()
        iterations = found.iterations
        if len(shape.branches) > _ALL_TRANSITS:
            for _ in range(_ROUNDS):
                more = shape.gaining(found.prices, self._transits, refused)
                if not len(more):
                    break
                solver.add(shape.transit_columns(more))
                self._transits = np.concatenate([self._transits, more])
                found = solver.solve()
                iterations += found.iterations
        return self._flows(shape, found, iterations)

    def _for(self, wan: Wan) -> tuple[_Shape, Solver]:
        """Give the program of these ports and tunnels, made anew if they are others than before."""
        if self._shape is None or self._solver is None or not self._shape.fits(wan):
            self._shape = shape = _Shape(wan)
            self._transits = shape.first_transits(wan)
            columns = columns_of([shape.own_columns(), shape.tunnel_columns(wan)])
            rows = len(shape.pairs) + len(shape.hops) + 2 * len(shape.ports)
            upper = np.zeros(rows)
            self._solver = Solver(columns, np.full(rows, -math.inf), upper)
            self._solver.add(shape.direct_columns())
            self._solver.add(shape.transit_columns(self._transits))
        return self._shape, self._solver

    def _flows(self, shape: _Shape, found: Solution, iterations: int) -> Flows:
        pieces, rest = np.split(found.values, [len(shape.pairs) * PIECES])
        loads, direct, by_transit = np.split(
            rest, np.cumsum([len(shape.tunnels), len(shape.direct)])
        )
        ways: dict[Pair, dict[str | None, float]] = {}
        for index in np.nonzero(direct > _NOTHING)[0]:
            pair = shape.pairs[shape.direct[index]]
            ways.setdefault(pair, {})[None] = MEGABIT * float(direct[index])
        for index in np.nonzero(by_transit > _NOTHING)[0]:
            number, transit = self._transits[index].tolist()
            way = ways.setdefault(shape.pairs[number], {})
            way[shape.branches[transit]] = MEGABIT * float(by_transit[index])
        carried = MEGABIT * pieces.reshape(-1, PIECES).sum(axis=1)
        return Flows(
            rates={
                p: float(rate) for p, rate in zip(shape.pairs, carried, strict=True) if rate > 0
            },
            ways=ways,
            loads={
                shape.tunnels[index]: MEGABIT * float(loads[index])
                for index in np.nonzero(loads > _NOTHING)[0]
            },
            objective=found.objective,
            iterations=iterations,
        )


class _Shape:
    """Which columns and rows a program has: all but the bounds."""

    def __init__(self, wan: Wan) -> None:
        self.ports: tuple[Stop, ...] = tuple(sorted(wan.ports))
        self.tunnels: tuple[Hop, ...] = tuple(sorted(wan.tunnels))
        self._limits, self._rates = wan.ports, wan.tunnels
        self.costs = costs(wan, self.tunnels)
        self.branches = sorted({stop.branch for stop in self.ports})
        self.pairs: list[Pair] = list(permutations(self.branches, 2))
        self.hops: list[Pair] = sorted(wan.hops)
        self._port = {stop: index for index, stop in enumerate(self.ports)}
        self._hop = {hop: index for index, hop in enumerate(self.hops)}
        self.direct = [index for index, pair in enumerate(self.pairs) if pair in self._hop]
        count = len(self.branches)
        self._hop_of = np.full((count, count), -1)
        """Row of each hop among the balances, by the branches' indices; -1 for none."""
        number = {name: index for index, name in enumerate(self.branches)}
        for index, (one, other) in enumerate(self.hops):
            self._hop_of[number[one], number[other]] = index
        ends = [(number[source], number[target]) for source, target in self.pairs]
        self._ends = np.array(ends, dtype=int).reshape(-1, 2)

    def fits(self, wan: Wan) -> bool:
        """Tell whether only bounds differ."""
        if self._rates.keys() != wan.tunnels.keys() or self._limits.keys() != wan.ports.keys():
            return False
        prices = (
            (each.cost_per_gb, wan.ports[stop].cost_per_gb) for stop, each in self._limits.items()
        )
        return all(then == now for then, now in prices)

    def wanted(self, wan: Wan, demand: Demand) -> Array:
        """Give each pair's demand, Mbit/s: not more than it could send if it were alone."""
        given = ((pair, demand.get(pair, 0.0)) for pair in self.pairs)
        return np.array([min(rate, wan.alone(p)) if rate > 0 else 0.0 for p, rate in given]) / (
            MEGABIT
        )

    def pieces(self, wanted: Array) -> Array:
        """Give the upper bounds of the pairs' pieces."""
        return np.outer(wanted, WIDTHS).ravel()

    def rates(self, wan: Wan) -> Array:
        """Give the upper bounds of the tunnels' loads."""
        return np.array([wan.tunnels[tunnel] for tunnel in self.tunnels]) / MEGABIT

    def limits(self, wan: Wan) -> Array:
        """Give the upper bounds of the ports' rows: egress of all, then ingress."""
        limits = [wan.ports[stop] for stop in self.ports]
        return np.array([each.egress for each in limits] + [each.ingress for each in limits]) / (
            MEGABIT
        )

    def own_columns(self) -> tuple[Array, Array, Array, Array]:
        """Give the pieces of the pairs' utility."""
        count = len(self.pairs)
        rows = np.repeat(np.arange(count), PIECES)[:, None]
        return np.tile(SLOPES, count), np.zeros(count * PIECES), rows, np.ones(rows.shape)

    def tunnel_columns(self, wan: Wan) -> tuple[Array, Array, Array, Array]:
        """Give the loads of tunnels: each in its hop's balance and at both its ports."""
        first, ports = len(self.pairs), len(self.pairs) + len(self.hops)
        rows = np.array(
            [
                (
                    first + self._hop[left.branch, arrived.branch],
                    ports + self._port[left],
                    ports + len(self.ports) + self._port[arrived],
                )
                for left, arrived in self.tunnels
            ],
            dtype=int,
        ).reshape(-1, 3)
        values = np.tile([-1.0, 1.0, 1.0], (len(self.tunnels), 1))
        return -self.costs, np.zeros(len(self.tunnels)), rows, values

    def direct_columns(self) -> Columns:
        """Give the flows on direct hops."""
        hops = [self._hop[self.pairs[index]] for index in self.direct]
        rows = np.array([self.direct, np.add(len(self.pairs), hops)], dtype=int).T.reshape(-1, 2)
        return _flow_columns(rows, np.array([-1.0, 1.0]))

    def transit_columns(self, found: Array) -> Columns:
        """Give the flows of pairs by transits, shape (n, 2)."""
        source, target = self._ends[found[:, 0]].T
        first = len(self.pairs)
        rows = np.stack(
            [
                found[:, 0],
                first + self._hop_of[source, found[:, 1]],
                first + self._hop_of[found[:, 1], target],
            ],
            axis=1,
        )
        return _flow_columns(rows, np.array([-1.0, 1.0, 1.0]))

    def first_transits(self, wan: Wan) -> Array:
        """Give the transits that are columns from the start: all, or those with the most room."""
        found = [each for part in self._first_transits(wan) for each in part]
        return np.array(found, dtype=int).reshape(-1, 2)

    def _first_transits(self, wan: Wan) -> Iterator[list[tuple[int, int]]]:
        room = np.zeros(len(self.hops))
        for (left, arrived), rate in wan.tunnels.items():
            room[self._hop[left.branch, arrived.branch]] += min(
                rate, wan.ports[left].egress, wan.ports[arrived].ingress
            )
        at = np.where(self._hop_of >= 0, np.append(room, 0.0)[self._hop_of], -1.0)
        every = len(self.branches) <= _ALL_TRANSITS
        for index, (source, target) in enumerate(self._ends):
            through = np.minimum(at[source], at[:, target])
            usable = np.nonzero(through >= 0)[0]
            if not every and len(usable) > _FIRST_TRANSITS:
                best = np.argsort(-through[usable], kind="stable")[:_FIRST_TRANSITS]
                usable = np.sort(usable[best])
            yield [(index, int(transit)) for transit in usable]

    def refused(self, wan: Wan) -> Array:
        """Tell which transits a pair must not use: no tunnels there and on are good enough.

        Shape (pairs, branches). Of each hop's tunnels the best loss and the best delay count.
        """
        source, target = self._ends.T
        if wan.bounds == ANY:
            return np.zeros((len(self.pairs), len(self.branches)), dtype=bool)
        delay, kept = np.full(len(self.hops) + 1, math.inf), np.zeros(len(self.hops) + 1)
        for tunnel, rate in wan.tunnels.items():
            if rate > 0:
                hop, found = self._hop[tunnel[0].branch, tunnel[1].branch], wan.quality(tunnel)
                delay[hop] = min(delay[hop], found.delay)
                kept[hop] = max(kept[hop], 1.0 - found.loss)
        delays, shares = delay[self._hop_of], kept[self._hop_of]
        late = delays[source] + delays[:, target].T > wan.bounds.delay
        lossy = 1.0 - shares[source] * shares[:, target].T > wan.bounds.loss
        both: Array = late | lossy
        return both

    def gaining(self, prices: Array, known: Array, refused: Array) -> Array:
        """Give the transit of each pair that gains most at these dual values, unless known."""
        pays, balances = prices[: len(self.pairs)], prices[len(self.pairs) :][: len(self.hops)]
        cost = np.where(self._hop_of >= 0, np.append(balances, 0.0)[self._hop_of], math.inf)
        source, target = self._ends.T
        gain = pays[:, None] - cost[source] - cost[:, target].T
        gain[refused] = -math.inf
        gain[known[:, 0], known[:, 1]] = -math.inf
        best = np.argmax(gain, axis=1)
        better = np.nonzero(gain[np.arange(len(best)), best] > _GAIN)[0]
        return np.stack([better, best[better]], axis=1)


def _flow_columns(rows: Array, signs: Array) -> Columns:
    zeros = np.zeros(len(rows))
    unlimited = np.full(len(rows), math.inf)
    return columns_of([(zeros, unlimited, rows, np.tile(signs, (len(rows), 1)))])
