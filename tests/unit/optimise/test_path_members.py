from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_mesh import hop, mesh

from hawser.optimise.carried import carried
from hawser.optimise.members import described, groups, members, reverse
from hawser.optimise.program import Program
from hawser.optimise.wan import Wan
from hawser.spec.overlay import MAX_PATHS
from hawser.spec.route import hops, route_branches
from peers.enumerated_paths import MBIT, sample


@given(st.integers(0, 100_000), st.integers(2, 8), st.integers(1, 4))
def test_groups_lose_at_most_two_percent(seed: int, branches: int, ports: int) -> None:
    wan, demand = sample(seed, branches, ports)
    best = Program().solve(wan, demand)
    found = groups(best, wan)
    assert carried(wan, best.rates, found).total >= 0.98 * best.total
    there = carried(wan, demand, found).objective
    assert 0.98 * best.objective <= there + 1e-6 <= best.objective * (1 + 1e-6) + 2e-6


@given(st.integers(0, 100_000), st.integers(2, 8), st.integers(1, 4))
def test_groups_are_good_path_groups(seed: int, branches: int, ports: int) -> None:
    wan, demand = sample(seed, branches, ports)
    for pair, routes in described(groups(Program().solve(wan, demand), wan)).items():
        assert 1 <= len(routes) <= MAX_PATHS
        assert len(set(routes)) == len(routes)
        for route in routes:
            assert route_branches(route) == pair == tuple(sorted(pair))
            assert 1 <= len(hops(route)) <= 2
            assert (
                len({stop.branch for each in hops(route) for stop in each}) == len(hops(route)) + 1
            )


@given(st.integers(0, 100_000))
def test_what_is_laid_into_tunnels_is_the_flow(seed: int) -> None:
    wan, demand = sample(seed, 6, 2)
    best = Program().solve(wan, demand)
    for pair, found in members(best).items():
        assert sum(each.rate for each in found) == pytest.approx(
            sum(best.ways[pair].values()), rel=1e-3, abs=100
        )


def test_disjoint_paths_come_first() -> None:
    wan = mesh(4, 2)
    demand = {("b0", "b1"): 20 * MBIT, ("b1", "b0"): 20 * MBIT}
    found = groups(Program().solve(wan, demand), wan)["b0", "b1"]
    first, second = found[:2]
    assert not {s for h in first for s in h} & {s for h in second for s in h}


def test_a_lonely_path_gets_a_spare_one_of_other_ports() -> None:
    wan = mesh(2, 2)
    found = groups(Program().solve(wan, {("b0", "b1"): 1 * MBIT}), wan)["b0", "b1"]
    assert len(found) == 2
    assert not {s for h in found[0] for s in h} & {s for h in found[1] for s in h}


def test_no_more_members_than_asked_for() -> None:
    wan, demand = sample(7, 8, 3)
    best = Program().solve(wan, demand)
    assert max(map(len, groups(best, wan).values())) > 3
    assert max(map(len, groups(best, wan, most=3).values())) == 3


def test_groups_over_what_is_no_more_carry_nothing() -> None:
    wan, demand = mesh(2, 1), {("b0", "b1"): 1 * MBIT, ("b1", "b0"): 1 * MBIT}
    found = {("b0", "b1"): ((hop("b0.w0", "b1.w0"),),)}
    assert carried(wan, demand, found).total == pytest.approx(2 * MBIT)
    half = Wan(wan.ports, {hop("b0.w0", "b1.w0"): 5 * MBIT})
    assert carried(half, demand, found).rates == {("b0", "b1"): pytest.approx(1 * MBIT)}
    assert carried(wan, demand, {}).total == 0


def test_a_path_turned_twice_is_itself() -> None:
    way = hop("b0.w0", "b1.w0"), hop("b1.w1", "b2.w0")
    assert reverse(way) == (hop("b2.w0", "b1.w1"), hop("b1.w0", "b0.w0"))
    assert reverse(reverse(way)) == way
