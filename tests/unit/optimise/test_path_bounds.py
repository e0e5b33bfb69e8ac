"""Paths that lose packets or are slow: the program against enumerated paths without them."""

from __future__ import annotations

import random

import pytest
from path_mesh import hop, mesh

from hawser.optimise import program as program_module
from hawser.optimise.carried import carried
from hawser.optimise.measured import Measured, PathReading, Reading
from hawser.optimise.members import groups
from hawser.optimise.program import Program
from hawser.optimise.wan import Bounds, Demand, Quality, Wan
from peers.enumerated_paths import MBIT, sample, ways

BOUNDS = Bounds(loss=0.02, delay=0.05)


def bounded(seed: int, branches: int, ports: int) -> tuple[Wan, Demand]:
    """A network of which half of the tunnels are not good enough, alone or two of them."""
    wan, demand = sample(seed, branches, ports)
    chance = random.Random(seed)  # noqa: S311 (repeatable)
    found = {
        tunnel: Quality(chance.choice([0.0, 0.0, 0.012, 0.3]), chance.choice([0.01, 0.03, 0.1]))
        for tunnel in wan.tunnels
    }
    return wan.within(BOUNDS, found), demand


def best_of_admitted(wan: Wan, demand: Demand) -> float:
    every = {
        pair: tuple(way for one in (pair, pair[::-1]) for way in _turned(wan, one, pair))
        for pair in demand
        if pair[0] < pair[1]
    }
    return carried(wan, demand, every).objective


def _turned(wan: Wan, one: tuple[str, str], pair: tuple[str, str]) -> list[tuple[object, ...]]:
    found = list(ways(wan, one))
    return found if one == pair else [tuple((b, a) for a, b in reversed(way)) for way in found]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("branches", [3, 5])
def test_the_optimum_is_that_over_paths_that_are_good_enough(seed: int, branches: int) -> None:
    """With one port a hop is a tunnel, so that nothing is lost by looking at hops."""
    wan, demand = bounded(seed, branches, 1)
    found = Program().solve(wan, demand)
    assert found.objective == pytest.approx(best_of_admitted(wan, demand), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_no_group_has_a_path_that_is_not_good_enough_but_a_spare(seed: int) -> None:
    wan, demand = bounded(seed, 5, 2)
    found = groups(Program().solve(wan, demand), wan)
    for chosen in found.values():
        bad = [way for way in chosen if not wan.admits(way)]
        assert not bad or (len(chosen) == 2 and len(bad[0]) == 1), "a direct one, for failures"


def test_priced_transits_are_good_enough_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wan, demand = bounded(3, 9, 2)
    every = Program().solve(wan, demand)
    monkeypatch.setattr(program_module, "_ALL_TRANSITS", 3)
    monkeypatch.setattr(program_module, "_FIRST_TRANSITS", 0)
    assert Program().solve(wan, demand).objective == pytest.approx(every.objective, rel=1e-6)


def test_bounds_come_and_go_between_solutions() -> None:
    wan = mesh(3, 1)
    poor = {hop("b0.w0", "b1.w0"): MBIT, hop("b1.w0", "b0.w0"): MBIT}
    wan = Wan(wan.ports, {**wan.tunnels, **poor})
    demand = {("b0", "b1"): 9 * MBIT}
    slow = {tunnel: Quality(0.0, 0.03) for tunnel in wan.tunnels}
    program = Program()
    rates = [
        program.solve(wan.within(bounds, slow), demand).total
        for bounds in (Bounds(), Bounds(delay=0.05), Bounds(delay=0.1), Bounds(delay=0.01))
    ]
    assert rates == pytest.approx([9 * MBIT, MBIT, 9 * MBIT, 0.0])


def test_loss_is_the_mean_and_delay_the_least_of_a_minute() -> None:
    measured, declared = Measured(), mesh(2, 1)
    tunnel = hop("b0.w0", "b1.w0")
    for second in range(120):
        loss = 0.125 if second in range(70, 78) else 0.0
        rtt = 0.03 if second == 100 else 0.3
        path = PathReading((tunnel,), 0.0, 0.0, True, loss, rtt)
        measured.take(declared, [Reading("b0", float(second), (path,), {})])
    found = measured.qualities(119.0)[tunnel]
    assert found.loss == pytest.approx(8 * 0.125 / 61)
    assert found.delay == pytest.approx(0.015)
    assert measured.qualities(300.0) == {}
