"""What a network lets pass at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synthetic
from hawser.report.bounds import bounds
from hawser.report.finding import finding
from hawser.report.model import Bounds, Report
from hawser.spec.topology import Channel, Internet, Link, Node, Topology, WanPort
from hawser.spec.units import Rate
from hawser.spec.workflow import Scenario
from hawser.stats.capacity import Edge, capacity, maximum_flow, widest

RATES = st.floats(1, 1e9)
VERTICES = "abcdef"
EDGES = st.lists(
    st.tuples(st.sampled_from(VERTICES), st.sampled_from(VERTICES), RATES), max_size=14
).map(lambda found: tuple(Edge(*one) for one in found if one[0] != one[1]))


@pytest.mark.parametrize(
    ("rates", "single"),
    [((4, 8, 12, 16), 16), ((10, 10, 10, 10), 10), ((1, 2, 4, 33), 33)],
)
def test_four_paths(rates: tuple[float, ...], single: float) -> None:
    found = bounds(synthetic.scenario("mptcp", rates), "tcp", False, "Mbit/s")
    assert found is not None
    assert (found.together, found.single) == pytest.approx((40, single))


def test_ports_limit_what_their_paths_carry_together() -> None:
    found = bounds(synthetic.scenario("mptcp", (80, 80, 80, 80)), "tcp", False, "kbit/s")
    assert found is not None
    assert (found.together, found.single) == pytest.approx((200e3, 80e3))


def test_each_direction_has_its_own_rate() -> None:
    def port(down: float) -> WanPort:
        return WanPort(rate=Rate(10e6), reverse=Channel(rate=Rate(down)))

    topology = synthetic.topology((1, 1, 1, 1)).model_copy(
        update={"internet": Internet(ports={"gw1.a": port(50e6), "gw2.a": port(30e6)})}
    )
    scenario = Scenario(topology=topology, measurements=synthetic.MEASUREMENTS)
    forward = bounds(scenario, "tcp", False, "Mbit/s")
    reverse = bounds(scenario, "tcp", True, "Mbit/s")
    assert forward == reverse == Bounds(together=10.0, single=10.0)
    wide = Internet(ports={"gw1.a": port(50e6), "gw2.a": WanPort(rate=Rate(90e6))})
    topology = topology.model_copy(update={"internet": wide})
    scenario = Scenario(topology=topology, measurements=synthetic.MEASUREMENTS)
    reverse = bounds(scenario, "tcp", True, "Mbit/s")
    assert reverse is not None
    assert reverse.together == pytest.approx(50)


def test_no_bound_where_nothing_limits_or_nothing_is_carried() -> None:
    free = Topology(nodes=dict.fromkeys(("h1", "h2"), synthetic.Node()), links={})
    joined = free.model_copy(update={"links": {"l": Link(ends=("h1.a", "h2.a"))}})
    for topology in (free, joined):
        scenario = Scenario(topology=topology, measurements=synthetic.MEASUREMENTS)
        assert bounds(scenario, "tcp", False, "Mbit/s") is None
    scenario = synthetic.scenario("mptcp", (1, 1, 1, 1))
    assert bounds(scenario, "rtt", False, "ms") is None
    assert bounds(scenario, "tcp", False, "requests/s") is None


def test_maximum_flow_of_the_textbook_example() -> None:
    """Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms, figure 26.1: 23."""
    edges = tuple(
        Edge(*one)
        for one in (
            ("s", "v1", 16.0), ("s", "v2", 13.0), ("v1", "v3", 12.0), ("v2", "v1", 4.0),
            ("v3", "v2", 9.0), ("v2", "v4", 14.0), ("v4", "v3", 7.0), ("v3", "t", 20.0),
            ("v4", "t", 4.0),
        )
    )  # fmt: skip
    assert maximum_flow(edges, "s", "t") == pytest.approx(23)
    assert widest(edges, "s", "t") == 12


@given(EDGES)
def test_one_path_carries_no_more_than_all_and_all_no_more_than_the_cut(
    edges: tuple[Edge, ...],
) -> None:
    single = widest(edges, "a", "b")
    if single == 0:
        return
    together = maximum_flow(edges, "a", "b")
    cuts = (
        sum(e.rate for e in edges if e.source == "a"),
        sum(e.rate for e in edges if e.target == "b"),
    )
    assert single * (1 - 1e-6) <= together <= min(cuts) * (1 + 1e-6)


def test_a_fast_edge_elsewhere_does_not_blur_a_slow_bottleneck() -> None:
    edges = (Edge("a", "b", 1.0), Edge("a", "c", 1.0), Edge("b", "a", 1e7))
    assert maximum_flow(edges, "a", "b") == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("down", "left"),
    [
        (["path:p1"], 30e6),
        (["path:p1", "path:p4"], 20e6),
        (["port:gw1.a"], 20e6),
        (["port:gw1.a", "port:gw1.b"], 0),
        ([], 40e6),
    ],
)
def test_what_is_left_of_four_paths(down: list[str], left: float) -> None:
    topology = synthetic.scenario("mptcp", (10, 10, 10, 10)).topology
    assert capacity(topology, "h1", "h2", frozenset(down)) == pytest.approx(left)


def test_nothing_limits() -> None:
    topology = Topology(nodes={"a": Node(), "b": Node()}, links={"x": Link(ends=("a.p", "b.p"))})
    assert capacity(topology, "a", "b") is None
    assert capacity(topology, "a", "b", frozenset({"link:x"})) == 0


def test_finding_names_the_bound_of_the_best_variant(quickstart: Report) -> None:
    layout, about = quickstart.layout, quickstart.headline
    slow = [row.model_copy(update={"bounds": Bounds(together=25, single=25)}) for row in about]
    best = max(slow, key=lambda row: row.summary.median)
    rows = [
        row.model_copy(update={"bounds": Bounds(together=200, single=200)}) if row is best else row
        for row in slow[::-1]
    ]
    assert any("of the 200 Mbit/s" in text for text in finding(layout, rows, (), ()))
