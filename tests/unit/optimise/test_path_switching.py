from __future__ import annotations

import pytest
from path_mesh import changed, hop, mesh

from hawser.optimise.measured import Measured, PathReading, Reading
from hawser.optimise.members import Groups, Way
from hawser.optimise.switching import Change, Rules, Switching
from hawser.optimise.wan import Demand, Pair, Wan
from peers.enumerated_paths import MBIT

PAIR, OTHERS = ("b0", "b1"), ("b2", "b3")
DIRECT = hop("b0.w0", "b1.w0")
DEMAND: Demand = {PAIR: 8 * MBIT}
POOR = {DIRECT: 2 * MBIT}


def run(switching: Switching, looks: list[tuple[float, Wan]], current: Groups) -> list[Change]:
    """Look at networks one after the other, and install what is said."""
    found: list[Change] = []
    groups = dict(current)
    for now, wan in looks:
        for change in switching.consider(now, wan, DEMAND, groups).changes:
            groups[change.pair] = change.after
            found.append(change)
    return found


def test_a_gain_has_to_hold() -> None:
    wan, poor = mesh(3, 1), changed(mesh(3, 1), POOR)
    looks = [(0, wan), (1, poor), (2, poor), (3, wan), (4, poor), (6, poor)]
    rules, current = Rules(hold_s=3), {PAIR: ((DIRECT,),)}
    assert run(Switching(rules), [(t, w) for t, w in looks], current) == []
    (change,) = run(Switching(rules), [*looks, (7, poor), (8, poor)], current)
    assert change.held_s == 3


def test_the_reason_has_the_figures() -> None:
    wan, poor = mesh(3, 1), changed(mesh(3, 1), POOR)
    (change,) = run(
        Switching(Rules(hold_s=3)), [(0, wan), (1, poor), (4, poor)], {PAIR: ((DIRECT,),)}
    )
    assert change.reason == (
        "b0 and b1 demand 8, their paths carry 2, the new ones 8 Mbit/s; all pairs together 2,"
        " then 8 Mbit/s; so for 3.0 s; b0.w0>b1.w0 has 2 Mbit/s, then 10"
    )
    assert (change.carries, change.will_carry) == (pytest.approx(2e6), pytest.approx(8e6))
    assert change.before == ((DIRECT,),)
    assert (hop("b0.w0", "b2.w0"), hop("b2.w0", "b1.w0")) in change.after


def test_groups_that_carry_nothing_are_replaced_at_once() -> None:
    dead = changed(mesh(3, 1), {DIRECT: 0.0})
    (change,) = run(Switching(Rules(hold_s=60)), [(5, dead)], {PAIR: ((DIRECT,),)})
    assert change.held_s == 0


def test_a_small_gain_is_none() -> None:
    slightly = changed(mesh(3, 1), {DIRECT: 7.5 * MBIT})
    looks = [(float(t), slightly) for t in range(100)]
    assert run(Switching(Rules(gain=0.1)), looks, {PAIR: ((DIRECT,),)}) == []


def test_changes_an_hour_are_bounded_however_paths_flap() -> None:
    wan, groups = mesh(4, 1), dict[Pair, tuple[Way, ...]]()
    switching, seen, held_back = Switching(Rules(per_hour=5, hold_s=0)), list[float](), 0
    for now in range(0, 3 * 3600, 20):
        used = {tunnel for ways in groups.values() for way in ways for tunnel in way}
        flapped = changed(wan, dict.fromkeys(used, 0.01 * MBIT))
        verdict = switching.consider(now, flapped, DEMAND, groups)
        held_back += "in the last hour" in verdict.waiting
        for change in verdict.changes:
            groups[change.pair] = change.after
            seen.append(now)
    assert len(seen) == 15
    assert held_back > 100
    assert all(later - first >= 3600 for first, later in zip(seen, seen[5:], strict=False))


def test_optima_that_are_no_better_change_nothing() -> None:
    wan = mesh(3, 1)
    demand = {("b0", "b2"): 20 * MBIT, ("b1", "b2"): 20 * MBIT}
    current = {pair: ((hop(f"{pair[0]}.w0", f"{pair[1]}.w0"),),) for pair in demand}
    assert Switching(Rules(hold_s=0)).consider(0, wan, demand, current).changes == ()


def test_only_those_that_are_short_change_where_that_is_enough() -> None:
    wan = changed(mesh(4, 2), {hop(f"b0.w{a}", f"b1.w{b}"): 0.1 * MBIT for a in "01" for b in "01"})
    demand = {PAIR: 8 * MBIT, ("b2", "b3"): 1 * MBIT}
    current = {PAIR: ((DIRECT,),), ("b2", "b3"): ((hop("b2.w0", "b3.w1"),),)}
    switching = Switching(Rules(hold_s=0))
    assert [c.pair for c in switching.consider(0, wan, demand, current).changes] == [PAIR]


def test_who_has_nothing_to_send_changes_nothing() -> None:
    verdict = Switching(Rules(hold_s=0)).consider(0, mesh(3, 1), {}, {PAIR: ((DIRECT,),)})
    assert (verdict.changes, verdict.waiting, verdict.best.total) == ((), "", 0)


def test_a_second_in_which_everybody_was_slow_changes_no_groups() -> None:
    """Ports are full before and after it, so that nothing else shows what the tunnels carry."""
    wan, measured, switching = mesh(4, 1, 20), Measured(), Switching(Rules())
    direct: Groups = {pair: ((hop(f"{pair[0]}.w0", f"{pair[1]}.w0"),),) for pair in (PAIR, OTHERS)}
    for now in range(15):
        sent = (12.0 if now == 5 else 19.0) * MBIT
        for (one, other), (way,) in direct.items():
            path = PathReading(way, sent, sent, up=True)
            measured.take(wan, [Reading(one, now, (path,), {other: sent}, {other: 5e4})])
        found = measured.wan(wan, now)
        assert switching.consider(now, found, measured.demand(direct, now), direct).changes == ()
