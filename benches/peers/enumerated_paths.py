"""The path program over enumerated paths, solved by scipy: what the real one is compared to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

import numpy as np
from scipy.optimize import linprog

from hawser.optimise.members import Way
from hawser.optimise.utility import PIECES, SLOPES, WIDTHS, costs
from hawser.optimise.wan import Demand, Limits, Pair, Wan
from hawser.spec.route import Stop

MBIT = 1e6


def sample(seed: int, branches: int, ports: int) -> tuple[Wan, Demand]:
    """Draw a network whose direct tunnels are often poor, and a demand."""
    chance = random.Random(seed)  # noqa: S311 (repeatable)
    names = [f"b{n}" for n in range(branches)]
    limits = {
        Stop(name, f"w{n}"): Limits(
            chance.choice([5, 10, 20, 40]) * MBIT,
            chance.choice([10, 20, 40]) * MBIT,
            chance.choice([0.0, 0.0, 2.5]),
        )
        for name in names
        for n in range(ports)
    }
    tunnels = {
        (one, other): chance.choice([0.0, 0.5, 2, 10, 40]) * MBIT
        for one, other in permutations(limits, 2)
        if one.branch != other.branch and chance.random() < 0.9
    }
    demand = {pair: chance.choice([0.0, 1, 5, 20]) * MBIT for pair in permutations(names, 2)}
    return Wan(limits, tunnels), demand


def ways(wan: Wan, pair: Pair) -> Iterator[Way]:
    """Enumerate the paths of a pair through at most one transit."""
    source, target = pair
    first = [t for t in wan.tunnels if t[0].branch == source]
    last = [t for t in wan.tunnels if t[1].branch == target]
    yield from ((t,) for t in first if t[1].branch == target)
    for one in first:
        for other in last:
            if one[1].branch == other[0].branch:
                yield one, other


def optimum(wan: Wan, demand: Demand) -> float:
    """Give the greatest utility less costs, Mbit/s."""
    tunnels, ports = tuple(sorted(wan.tunnels)), sorted(wan.ports)
    price = dict(zip(tunnels, costs(wan, tunnels), strict=True))
    pairs = [pair for pair, rate in demand.items() if rate > 0]
    gains: list[float] = []
    upper: list[float | None] = []
    entries: list[dict[object, float]] = []
    for pair in pairs:
        wanted = min(demand[pair], wan.alone(pair)) / MBIT
        for piece in range(PIECES):
            gains.append(SLOPES[piece])
            upper.append(wanted * WIDTHS[piece])
            entries.append({pair: 1.0})
        for way in ways(wan, pair):
            gains.append(-sum(price[hop] for hop in way))
            upper.append(None)
            sides = [side for left, came in way for side in (("out", left), ("in", came))]
            entries.append({pair: -1.0, **dict.fromkeys(way, 1.0), **dict.fromkeys(sides, 1.0)})
    limits: dict[object, float] = dict.fromkeys(pairs, 0.0)
    limits |= {hop: rate / MBIT for hop, rate in wan.tunnels.items()}
    limits |= {("out", stop): wan.ports[stop].egress / MBIT for stop in ports}
    limits |= {("in", stop): wan.ports[stop].ingress / MBIT for stop in ports}
    row = {key: index for index, key in enumerate(limits)}
    matrix = np.zeros((len(row), len(gains)))
    for column, found in enumerate(entries):
        for key, value in found.items():
            matrix[row[key], column] = value
    if not gains:
        return 0.0
    solved = linprog(
        -np.array(gains),
        A_ub=matrix,
        b_ub=list(limits.values()),
        bounds=[(0, most) for most in upper],
        method="highs-ipm",
    )
    if not solved.success:
        raise ArithmeticError(f"the enumerated program has no solution: {solved.message}")
    return float(-solved.fun)
