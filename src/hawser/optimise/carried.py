"""What given path groups carry at best: a program over their member paths alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hawser.optimise.members import Groups, Way, reverse
from hawser.optimise.program import MEGABIT, Flows
from hawser.optimise.solver import Array, Solver, columns_of
from hawser.optimise.utility import PIECES, SLOPES, WIDTHS, costs
from hawser.optimise.wan import Demand, Pair, Wan
from hawser.spec.route import Hop


def carried(wan: Wan, demand: Demand, found: Groups) -> Flows:
    """Give the optimum of traffic that has only these paths.

    A gateway sends each packet where it arrives first, so over its group's paths it comes to this.
    Paths over a tunnel that does not exist carry nothing.

    Args:
        wan: measured ports and tunnels.
        demand: bit/s by pair of branches.
        found: member paths; a group serves both directions.

    Raises:
        ProgramError: the solver has failed.
    """
    paths = [
        (pair, way)
        for pair, way in _directed(found)
        if demand.get(pair, 0.0) > 0 and all(hop in wan.tunnels for hop in way) and wan.admits(way)
    ]
    pairs = list(dict.fromkeys(pair for pair, _ in paths))
    return _solved(wan, demand, pairs, paths)


def _directed(found: Groups) -> Sequence[tuple[Pair, Way]]:
    there = [(pair, way) for pair, ways in found.items() for way in ways]
    return [*there, *((pair[::-1], reverse(way)) for pair, way in there)]


def _solved(wan: Wan, demand: Demand, pairs: list[Pair], paths: list[tuple[Pair, Way]]) -> Flows:
    tunnels: tuple[Hop, ...] = tuple(sorted({hop for _, way in paths for hop in way}))
    ports = sorted({stop for hop in tunnels for stop in hop})
    place = {pair: index for index, pair in enumerate(pairs)}
    wanted = np.array([min(demand[p], wan.alone(p)) for p in pairs]) / MEGABIT
    price = dict(zip(tunnels, costs(wan, tunnels), strict=True))
    first = len(pairs)
    at = {tunnel: first + index for index, tunnel in enumerate(tunnels)}
    egress = {stop: first + len(tunnels) + index for index, stop in enumerate(ports)}
    ingress = {stop: row + len(ports) for stop, row in egress.items()}
    pieces = np.repeat(np.arange(len(pairs)), PIECES)[:, None]
    parts = [
        (
            np.tile(SLOPES, len(pairs)),
            np.outer(wanted, WIDTHS).ravel(),
            pieces,
            np.ones(pieces.shape),
        )
    ]
    for pair, way in paths:
        rows = [place[pair]]
        for left, arrived in way:
            rows += [at[left, arrived], egress[left], ingress[arrived]]
        values = np.array([[-1.0] + [1.0] * (len(rows) - 1)])
        gain = -sum(price[hop] for hop in way)
        parts.append((np.array([gain]), np.array([math.inf]), np.array([rows]), values))
    limits = [wan.ports[stop] for stop in ports]
    upper = [wan.tunnels[tunnel] for tunnel in tunnels]
    upper += [each.egress for each in limits] + [each.ingress for each in limits]
    bounds = np.concatenate([np.zeros(first), np.array(upper) / MEGABIT])
    solver = Solver(columns_of(parts), np.full(len(bounds), -math.inf), bounds)
    found = solver.solve()
    values = found.values
    return _flows(pairs, paths, values, found.objective, found.iterations)


def _flows(
    pairs: list[Pair],
    paths: list[tuple[Pair, Way]],
    values: Array,
    objective: float,
    iterations: int,
) -> Flows:
    rates = MEGABIT * values[: len(pairs) * PIECES].reshape(-1, PIECES).sum(axis=1)
    ways: dict[Pair, dict[str | None, float]] = {}
    loads: dict[Hop, float] = {}
    for (pair, way), rate in zip(paths, MEGABIT * values[len(pairs) * PIECES :], strict=True):
        if rate > 1.0:
            transit = way[0][1].branch if len(way) > 1 else None
            there = ways.setdefault(pair, {})
            there[transit] = there.get(transit, 0.0) + float(rate)
            for hop in way:
                loads[hop] = loads.get(hop, 0.0) + float(rate)
    found = {pair: float(rate) for pair, rate in zip(pairs, rates, strict=True)}
    return Flows(found, ways, loads, objective, iterations)
