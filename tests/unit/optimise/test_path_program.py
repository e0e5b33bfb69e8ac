from __future__ import annotations

import math
import random
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_mesh import changed, hop, mesh

from hawser.optimise import program as program_module
from hawser.optimise.program import Flows, Program
from hawser.optimise.utility import PIECES, SLOPES, utility
from hawser.optimise.wan import Demand, Limits, Wan
from hawser.spec.route import Stop
from peers.enumerated_paths import MBIT, optimum, sample

SIZES = [(2, 1), (2, 3), (3, 1), (3, 2), (4, 2), (5, 2), (6, 1)]


def assert_sound(wan: Wan, demand: Demand, found: Flows) -> None:
    """Assert that the flows fit into tunnels and ports, and come from somewhere."""
    slack = 100.0
    egress, ingress, hops = dict[Stop, float](), dict[Stop, float](), dict[tuple[str, str], float]()
    for (left, came), load in found.loads.items():
        assert load <= wan.tunnels[left, came] + slack
        egress[left] = egress.get(left, 0) + load
        ingress[came] = ingress.get(came, 0) + load
        branches = left.branch, came.branch
        hops[branches] = hops.get(branches, 0) + load
    assert all(load <= wan.ports[stop].egress + slack for stop, load in egress.items())
    assert all(load <= wan.ports[stop].ingress + slack for stop, load in ingress.items())
    for pair, rate in found.rates.items():
        assert rate <= demand.get(pair, 0) + slack
        assert rate <= sum(found.ways.get(pair, {}).values()) + slack
    for (source, target), ways in found.ways.items():
        for transit, rate in ways.items():
            for used in pairwise([source, *([transit] if transit else []), target]):
                hops[used] -= rate
    assert all(abs(left) < len(found.ways) * slack for left in hops.values())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_that_over_enumerated_paths(seed: int, size: tuple[int, int]) -> None:
    wan, demand = sample(seed, *size)
    found = Program().solve(wan, demand)
    assert found.objective == pytest.approx(optimum(wan, demand), rel=1e-3, abs=1e-6)
    assert_sound(wan, demand, found)


def test_priced_transits_give_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    wan, demand = sample(3, 9, 2)
    every = Program().solve(wan, demand)
    monkeypatch.setattr(program_module, "_ALL_TRANSITS", 3)
    monkeypatch.setattr(program_module, "_FIRST_TRANSITS", 0)
    none = Program()
    priced = none.solve(wan, demand)
    assert priced.objective == pytest.approx(every.objective, rel=1e-6)
    assert any(transit for ways in priced.ways.values() for transit in ways)
    monkeypatch.setattr(program_module, "_ROUNDS", 0)
    assert Program().solve(wan, demand).objective < 0.999 * every.objective


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 2))
def test_solved_again_it_is_as_good_as_new(seed: int, branches: int, ports: int) -> None:
    wan, demand = sample(seed, branches, ports)
    warm = Program()
    warm.solve(wan, demand)
    chance = random.Random(seed)  # noqa: S311 (repeatable)
    again = Wan(
        {
            stop: Limits(each.egress * chance.choice([0, 1, 2]), each.ingress, each.cost_per_gb)
            for stop, each in wan.ports.items()
        },
        {each: rate * chance.choice([0, 0.5, 1, 3]) for each, rate in wan.tunnels.items()},
    )
    wanted = {pair: rate * chance.choice([0, 1, 4]) for pair, rate in demand.items()}
    found = warm.solve(again, wanted)
    assert_sound(again, wanted, found)
    new = Program().solve(again, wanted)
    assert found.objective == pytest.approx(new.objective, rel=1e-6, abs=1e-6)


def test_few_iterations_after_a_few_changes() -> None:
    wan, demand = sample(1, 12, 2)
    found = Program()
    cold = found.solve(wan, demand).iterations
    tunnels = sorted(wan.tunnels)[::40]
    warm = found.solve(changed(wan, {each: wan.tunnels[each] / 2 for each in tunnels}), demand)
    assert warm.iterations < cold / 4


def test_a_port_that_comes_is_used() -> None:
    found = Program()
    small, large = mesh(3, 1), mesh(3, 2)
    demand = {("b0", "b1"): 50 * MBIT}
    assert found.solve(small, demand).total == pytest.approx(10 * MBIT)
    assert found.solve(large, demand).total == pytest.approx(20 * MBIT)


def test_a_poor_direct_path_is_helped_by_a_transit() -> None:
    wan = changed(mesh(3, 1), {hop("b0.w0", "b1.w0"): 1 * MBIT})
    found = Program().solve(wan, {("b0", "b1"): 8 * MBIT})
    assert found.total == pytest.approx(8 * MBIT)
    assert found.ways["b0", "b1"][None] == pytest.approx(1 * MBIT)
    assert found.ways["b0", "b1"]["b2"] == pytest.approx(7 * MBIT)


def test_saturated_ports_carry_no_transit() -> None:
    wan, branches = mesh(5, 2), [f"b{n}" for n in range(5)]
    found = Program().solve(wan, dict.fromkeys(permutations(branches, 2), 100 * MBIT))
    assert all(set(ways) == {None} for ways in found.ways.values())
    assert found.total == pytest.approx(5 * 2 * 10 * MBIT)


def test_pairs_that_compete_get_like_shares_of_their_demand() -> None:
    wan = mesh(4, 1)
    demand = {("b0", "b3"): 8 * MBIT, ("b1", "b3"): 8 * MBIT, ("b2", "b3"): 2 * MBIT}
    found = Program().solve(wan, demand)
    assert found.total == pytest.approx(10 * MBIT)
    shares = [found.rates[pair] / rate for pair, rate in demand.items()]
    assert max(shares) <= 2 * min(shares) + 1e-6


def test_of_two_ways_the_cheaper_is_taken_and_a_price_costs_no_goodput() -> None:
    wan = mesh(2, 2)
    dear = {stop: Limits(10 * MBIT, 10 * MBIT, 5.0) for stop in wan.ports if stop.port == "w0"}
    priced = Wan({**wan.ports, **dear}, wan.tunnels)
    cheap = Program().solve(priced, {("b0", "b1"): 9 * MBIT})
    assert set(cheap.loads) == {hop("b0.w1", "b1.w1")}
    assert Program().solve(priced, {("b0", "b1"): 20 * MBIT}).total == pytest.approx(20 * MBIT)


def test_ports_without_limits_and_pairs_without_tunnels() -> None:
    one, other, alone = (Stop(f"b{n}", "w") for n in range(3))
    wan = Wan(dict.fromkeys((one, other, alone), Limits()), {(one, other): 5 * MBIT})
    found = Program().solve(wan, {("b0", "b1"): 9 * MBIT, ("b1", "b0"): 9 * MBIT, ("x", "b0"): 1})
    assert found.rates == {("b0", "b1"): pytest.approx(5 * MBIT)}
    assert Program().solve(Wan({}, {}), {}).total == 0


@given(st.floats(0, 2e9), st.floats(1, 1e9))
def test_the_utility_is_concave(rate: float, demand: float) -> None:
    assert utility(rate, demand) <= rate * SLOPES[0] * (1 + 1e-9)
    assert utility(2 * rate, demand) <= 2 * utility(rate, demand) * (1 + 1e-9) + 1e-9
    assert utility(rate, demand) <= utility(2 * rate, demand) + 1e-9
    assert math.isfinite(utility(rate, demand))
    assert len(SLOPES) == PIECES
