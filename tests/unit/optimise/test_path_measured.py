from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_mesh import hop, mesh

from hawser.optimise.measured import Estimate, Measured, PathReading, Reading
from hawser.optimise.wan import Wan
from peers.enumerated_paths import MBIT

DIRECT = hop("b0.w0", "b1.w0")
OVER = (hop("b0.w0", "b2.w0"), hop("b2.w0", "b1.w0"))
FULL = {"b1": 50_000.0}


def reading(
    time: float,
    sent: float,
    capacity: float,
    *,
    waiting: dict[str, float] | None = None,
    up: bool = True,
    transit: float = 0.0,
) -> Reading:
    paths = (
        PathReading((DIRECT,), sent * MBIT, capacity * MBIT, up),
        PathReading(OVER, transit * MBIT, 5 * MBIT, up=True),
    )
    return Reading("b0", time, paths, {"b1": (sent + transit) * MBIT}, waiting or {})


def rate(readings: list[Reading], wan: Wan | None = None, now: float | None = None) -> float:
    """Give the direct tunnel's rate after these reports, Mbit/s."""
    declared, measured = wan or mesh(3, 1, 20), Measured()
    for each in readings:
        measured.take(declared, [each])
    return measured.wan(declared, now or readings[-1].time).tunnels[DIRECT] / MBIT


def test_a_path_that_limits_its_traffic_shows_its_rate() -> None:
    assert rate([reading(t, 4, 5, waiting=FULL) for t in range(4)]) == 5


def test_traffic_that_its_hosts_limit_shows_nothing() -> None:
    assert rate([reading(t, 4, 5) for t in range(4)]) == 20
    burst = [reading(t, 4, 5, waiting=FULL if t == 2 else {}) for t in range(4)]
    assert rate(burst) == 20


def test_a_full_port_hides_the_tunnel() -> None:
    assert rate([reading(t, 9, 10, waiting=FULL, transit=9) for t in range(4)]) == 20


def test_a_path_that_began_slowly_is_as_fast_as_its_port() -> None:
    """Its first seconds do not fill the port. Later ones do, and hide the tunnel."""
    began = [reading(t, sent, sent, waiting=FULL) for t, sent in enumerate((0.1, 8, 13))]
    assert rate(began) < 20
    assert rate([*began, reading(3, 19, 19, waiting=FULL)]) < 20, "that may be what fills a queue"
    assert rate([*began, *(reading(t, 19, 19, waiting=FULL) for t in (3, 4))]) == 20


def test_a_report_that_comes_late_tells_of_its_own_time() -> None:
    """A full line holds up reports, too. Both paths are the direct tunnel, and fill the port."""
    wan, measured = mesh(3, 1, 20), Measured()
    idle = PathReading((hop("b2.w0", "b1.w0"),), 0.0, 5 * MBIT, up=True)
    for t in range(4):
        place = PathReading((DIRECT,), 9 * MBIT, 10 * MBIT, up=True)
        measured.take(wan, [Reading("b2", t + 9.0, (idle,), {})])
        measured.take(wan, [Reading("b0", float(t), (place, place), {"b1": 18 * MBIT}, FULL)])
    assert measured.wan(wan, 12).tunnels[DIRECT] == 20 * MBIT


def test_one_wild_value_is_none() -> None:
    rates = [5, 5, 0.1, 5, 5]
    assert rate([reading(t, 4, each, waiting=FULL) for t, each in enumerate(rates)]) == 5


def test_what_others_send_over_a_tunnel_is_its_rate_too() -> None:
    wan, measured = mesh(4, 1, 40), Measured()
    other = (DIRECT, hop("b1.w0", "b3.w0"))
    for t in range(4):
        more = PathReading(other, 8 * MBIT, 9 * MBIT, up=True)
        mine = reading(t, 4, 5, waiting=FULL)
        measured.take(wan, [Reading("b0", t, (*mine.paths, more), mine.sent, FULL)])
    assert measured.wan(wan, 3).tunnels[DIRECT] == 12 * MBIT


def test_what_was_measured_is_known_for_a_minute() -> None:
    old = [reading(t, 4, 5, waiting=FULL) for t in range(4)]
    assert rate(old, now=60) == 5
    assert rate(old, now=64) == 20


def test_a_path_that_failed_carries_nothing_until_it_works_again() -> None:
    works = reading(0, 4, 5)
    down = [reading(t, 0, 0, up=False) for t in range(1, 4)]
    assert rate([works, *down[:1]]) == 20
    assert rate([works, *down]) == 0
    assert rate([works, *down, reading(4, 1, 5)]) == 20


def test_a_path_that_has_not_worked_yet_is_only_not_connected() -> None:
    assert rate([reading(t, 0, 0, up=False) for t in range(5)]) == 20


def test_demand_is_what_is_sent_and_more_where_it_waits() -> None:
    wan, measured = mesh(3, 1, 20), Measured()
    for t in range(3):
        measured.take(wan, [reading(t, 4, 9)])
    found = measured.demand([("b0", "b1"), ("b1", "b2")], 2)
    assert found["b0", "b1"] == 4 * MBIT
    assert found["b1", "b0"] == found["b2", "b1"] == 1e5
    for t in range(3, 6):
        measured.take(wan, [reading(t, 4, 4, waiting=FULL)])
    assert measured.demand([("b0", "b1")], 6)["b0", "b1"] == 16 * MBIT
    assert measured.demand([("b0", "b1")], 40)["b0", "b1"] == 1e5


def test_demand_outlives_a_path_that_becomes_worse() -> None:
    wan, measured = mesh(3, 1, 20), Measured()
    for t in range(20):
        measured.take(wan, [reading(t, 9 if t < 5 else 2, 10)])
    assert measured.demand([("b0", "b1")], 20)["b0", "b1"] == 9 * MBIT


def test_an_old_report_is_not_taken_again() -> None:
    wan, measured = mesh(3, 1, 20), Measured()
    same = reading(7, 4, 5, waiting=FULL)
    for _ in range(5):
        measured.take(wan, [same])
    assert measured.demand([("b0", "b1")], 7)["b0", "b1"] == 16 * MBIT
    assert measured.loads_of_others([], 7)[DIRECT] == 4 * MBIT
    assert measured.loads_of_others([("b0", "b1")], 7) == {}
    assert measured.loads_of_others([], 20) == {}


_NUMBER = st.floats(0, 1e12)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), _NUMBER, _NUMBER, st.booleans(), _NUMBER), max_size=20)
)
def test_whatever_is_reported_gives_rates(
    reports: list[tuple[float, float, float, bool, float]],
) -> None:
    wan, measured = mesh(3, 1, 20), Measured()
    for time, sent, capacity, up, waiting in reports:
        paths = (PathReading((DIRECT,), sent, capacity, up),)
        measured.take(wan, [Reading("b0", time, paths, {"b1": sent}, {"b1": waiting})])
    now = max((each[0] for each in reports), default=0.0)
    assert all(rate >= 0 for rate in measured.wan(wan, now).tunnels.values())
    assert measured.demand([("b0", "b1")], now)["b0", "b1"] >= 1e5


def test_what_is_left_beside_other_traffic() -> None:
    left = mesh(3, 1, 20).without({DIRECT: 15 * MBIT})
    assert left.tunnels[DIRECT] == 5 * MBIT
    assert left.ports[DIRECT[0]].egress == pytest.approx(5 * MBIT)
    assert left.ports[DIRECT[1]].ingress == pytest.approx(5 * MBIT)
    assert left.ports[DIRECT[0]].ingress == pytest.approx(20 * MBIT)


def over(time: float, transit: float, *, direct: float = 4.0, known: float = 5.0) -> Reading:
    """Give a report in which both paths are full; the transit path is measured at 5 Mbit/s."""
    return reading(time, direct, known, waiting=FULL, transit=transit)


def tunnels(readings: list[Reading], now: float | None = None) -> list[float]:
    """Give the rates of the transit path's tunnels after these reports, Mbit/s."""
    declared, measured = mesh(3, 1, 20), Measured()
    for each in readings:
        measured.take(declared, [each])
    found = measured.wan(declared, now or readings[-1].time).tunnels
    return [found[tunnel] / MBIT for tunnel in OVER]


def test_a_path_through_another_branch_shows_the_rate_of_its_tunnels() -> None:
    assert tunnels([over(t, 4) for t in range(4)]) == [5, 5]
    assert tunnels([over(t, 1) for t in range(4)]) == [20, 20]
    assert tunnels([over(t, 4) for t in range(4)], now=64) == [20, 20]


def test_a_tunnel_that_a_direct_path_measured_keeps_that_rate() -> None:
    """It may be the other one that limits the longer path."""
    first = [
        Reading(
            "b0", t, (PathReading((OVER[0],), 6 * MBIT, 8 * MBIT, up=True),), {"b2": 1}, {"b2": 5e4}
        )
        for t in range(4)
    ]
    assert tunnels([*first, *(over(t, 4) for t in range(4, 8))]) == [8, 5]


def test_a_tunnel_that_is_full_explains_the_whole_path() -> None:
    first = [
        Reading(
            "b0",
            t,
            (PathReading((OVER[0],), 4 * MBIT, 4.5 * MBIT, up=True),),
            {"b2": 1},
            {"b2": 5e4},
        )
        for t in range(4)
    ]
    assert tunnels([*first, *(over(t, 4) for t in range(4, 8))]) == [4.5, 20]


def test_trains_tell_the_lower_bound_until_traffic_measures_the_tunnel() -> None:
    wan, measured = mesh(3, 1, 20), Measured()
    found = {DIRECT: Estimate(0, 8 * MBIT, 7 * MBIT, 9 * MBIT)}
    before = measured.wan(wan, 0, found)
    assert before.tunnels[DIRECT] == 7 * MBIT
    assert DIRECT in before.unmeasured, "a group that relies on it tries others, too"
    for t in range(4):
        measured.take(wan, [reading(t, 4, 5, waiting=FULL)])
    after = measured.wan(wan, 3, found)
    assert after.tunnels[DIRECT] == 5 * MBIT
    assert DIRECT not in after.unmeasured
    fast = {DIRECT: Estimate(0, 90 * MBIT, 80 * MBIT, 99 * MBIT)}
    assert Measured().wan(wan, 0, fast).tunnels[DIRECT] == 20 * MBIT, "no more than declared"


def test_trains_are_for_tunnels_whose_ports_are_idle() -> None:
    wan, measured = mesh(4, 1, 20), Measured()
    assert measured.idle(wan, 0) == frozenset(wan.tunnels)
    measured.take(wan, [reading(0, 0.01, 5, transit=3)])
    assert measured.idle(wan, 0) == frozenset(), "b0 sends to b1 by b2, and b3 has no other peer"
    measured.take(wan, [reading(2, 0.01, 5, transit=0.02)])
    assert measured.idle(wan, 2) == frozenset(wan.tunnels), "what is only kept alive is idle"
    measured.take(wan, [reading(3, 3, 5)])
    assert {s.branch for t in measured.idle(wan, 3) for s in t} == {"b2", "b3"}
