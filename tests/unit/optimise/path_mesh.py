"""Networks for tests of path programs."""

from __future__ import annotations

from itertools import permutations

from hawser.optimise.wan import Limits, Wan
from hawser.spec.route import Hop, Stop
from peers.enumerated_paths import MBIT


def mesh(branches: int, ports: int, rate: float = 10) -> Wan:
    limits = {
        Stop(f"b{n}", f"w{p}"): Limits(rate * MBIT, rate * MBIT)
        for n in range(branches)
        for p in range(ports)
    }
    ends = (each for each in permutations(limits, 2) if each[0].branch != each[1].branch)
    return Wan(limits, dict.fromkeys(ends, rate * MBIT))


def changed(wan: Wan, rates: dict[Hop, float]) -> Wan:
    return Wan(wan.ports, {**wan.tunnels, **rates})


def hop(one: str, other: str) -> Hop:
    return Stop.of(one), Stop.of(other)
