from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_mesh import changed, hop, mesh

from hawser.optimise.exploration import explored
from hawser.optimise.members import Way, groups, reverse
from hawser.optimise.program import Program
from hawser.optimise.switching import Rules, Switching
from hawser.optimise.wan import Bounds, Pair, Quality, Wan
from hawser.spec.overlay import MAX_PATHS
from peers.enumerated_paths import MBIT, sample

PAIR: Pair = ("b0", "b1")


def poor(branches: int, rate: float = 2) -> Wan:
    """Give a network whose direct paths between b0 and b1 are measured and slow."""
    wan = mesh(branches, 2, 40)
    direct = {t: rate * MBIT for t in wan.tunnels if {t[0].branch, t[1].branch} == set(PAIR)}
    return replace(changed(wan, direct), unmeasured=frozenset(wan.tunnels) - frozenset(direct))


def group(wan: Wan, demanded: float) -> tuple[tuple[Way, ...], tuple[Way, ...]]:
    """Give the group of the optimum, and the same with what is explored."""
    best = Program().solve(wan, {PAIR: demanded * MBIT})
    ways = groups(best, wan)[PAIR]
    return ways, explored(PAIR, ways, best, wan)


@pytest.mark.parametrize("demanded", [20, 32, 50, 61.7, 71.4, 77.2, 80, 100, 320])
@pytest.mark.parametrize("direct", [2, 4, 5])
def test_a_group_that_relies_on_declared_rates_tries_all_tunnels_at_once(
    demanded: float, direct: float
) -> None:
    """Five branches with two ports: twelve tunnels lead to transits, and twelve from them.

    With four direct paths and twelve others a group has each once, if no two paths of the optimum
    are over the same one.
    """
    wan = poor(5, direct)
    before, after = group(wan, demanded)
    if all(len(way) == 1 for way in before):
        assert after == before
        return
    used = {tunnel for way in after for tunnel in way}
    assert len(before) < len(after) <= MAX_PATHS
    assert {tunnel for way in before for tunnel in way} <= used
    from_b0 = {t for t in wan.tunnels if t[0].branch == "b0" and t[1].branch != "b1"}
    to_b1 = {t for t in wan.tunnels if t[1].branch == "b1" and t[0].branch != "b0"}
    assert from_b0 | to_b1 <= used
    ends = Counter((way[0][0], way[-1][1]) for way in after)
    assert max(ends.values()) <= 5, "each path finds a place whose ports at both ends it has"


def test_a_group_over_measured_tunnels_has_no_more_paths_than_it_needs() -> None:
    wan = replace(poor(5), unmeasured=frozenset())
    before, after = group(wan, 32)
    assert before == after


def test_direct_paths_that_are_enough_are_not_helped() -> None:
    wan = mesh(5, 2, 40)
    before, after = group(replace(wan, unmeasured=frozenset(wan.tunnels)), 30)
    assert before == after
    assert all(len(way) == 1 for way in before)


def test_transits_whose_ports_others_fill_are_left_alone() -> None:
    """b2 and b3 exchange as much as their ports carry; of the others b4 is free."""
    wan = poor(5)
    demand = {PAIR: 20 * MBIT, ("b2", "b3"): 80 * MBIT, ("b3", "b2"): 80 * MBIT}
    best = Program().solve(wan, demand)
    ways = groups(best, wan)[PAIR]
    found = explored(PAIR, ways, best, wan)
    assert {way[0][1].branch for way in found if len(way) > 1} == {"b4"}


def test_paths_that_do_not_offer_the_thresholds_are_not_tried() -> None:
    wan = poor(4)
    slow = {t: Quality(delay=1.0) for t in wan.tunnels if "b3" in (t[0].branch, t[1].branch)}
    _, found = group(wan.within(Bounds(delay=0.5), slow), 32)
    assert {way[0][1].branch for way in found if len(way) > 1} == {"b2"}


@given(st.integers(0, 100_000), st.integers(3, 6), st.integers(1, 3), st.floats(0, 1))
def test_what_is_explored_is_a_path_group(
    seed: int, branches: int, ports: int, part: float
) -> None:
    wan, demand = sample(seed, branches, ports)
    ordered = sorted(wan.tunnels)
    wan = replace(wan, unmeasured=frozenset(ordered[: int(part * len(ordered))]))
    best = Program().solve(wan, demand)
    for pair, ways in groups(best, wan).items():
        found = explored(pair, ways, best, wan)
        assert {hop for way in ways for hop in way} <= {hop for way in found for hop in way}
        assert len(set(found)) == len(found) <= max(MAX_PATHS, len(ways))
        for way in set(found) - set(ways):
            assert (way[0][0].branch, way[-1][1].branch) == pair
            assert all(tunnel in wan.tunnels for tunnel in (*way, *reverse(way)))


def test_one_change_brings_what_tunnels_of_unknown_rate_carry() -> None:
    """All tunnels from b0 carry 2 Mbit/s of the 40 declared; it has found out once it uses them."""
    truth = {t: 2 * MBIT for t in poor(5).tunnels if t[0].branch == "b0"}
    direct = tuple((hop(f"b0.w{a}", f"b1.w{b}"),) for a in (0, 1) for b in (0, 1))
    known, current, changes = {t for (t,) in direct}, {PAIR: direct}, 0
    switching = Switching(Rules(hold_s=3))
    for now in range(30):
        wan = poor(5)
        wan = changed(wan, {t: truth[t] for t in known})
        wan = replace(wan, unmeasured=frozenset(wan.tunnels) - known)
        for change in switching.consider(now, wan, {PAIR: 80 * MBIT}, current).changes:
            current[change.pair] = change.after
            known |= {way[0] for way in change.after}
            changes += 1
    assert changes == 1
    assert len({way[0] for way in current[PAIR]}) == 16
