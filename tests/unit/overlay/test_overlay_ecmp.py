"""Equally short ways: routes with several next hops, and what a measurement may pass."""

from __future__ import annotations

from itertools import pairwise

import documents
from hawser.overlay.lab.network import network
from hawser.overlay.lab.plan import NetworkPlan, RoutePlan
from hawser.overlay.lab.traversed import traversed
from hawser.spec.way import equal_hops, first_hops, shortest
from lab.plans.cloud import document, vpn

SCENARIO = documents.workflow(document(vpn("gre", 4))).variants[0].scenario
PLAN = network(SCENARIO)


def routes(plan: NetworkPlan, node: str) -> tuple[RoutePlan, ...]:
    return next(each.routes for each in plan.nodes if each.name == node)


def test_only_routers_before_several_tunnels_have_several_next_hops() -> None:
    spread = {each.name for each in PLAN.nodes if any(route.others for route in each.routes)}
    assert spread == {"tgw-west", "tgw-east"}
    server = PLAN.addresses["server"]
    route = next(route for route in routes(PLAN, "tgw-west") if server in route.to)
    assert [route.interface, *(name for _, name in route.others)] == [
        "vpn-a1", "vpn-a2", "vpn-a3", "vpn-a4",
    ]  # fmt: skip
    settings = {each.name: each.sysctl for each in PLAN.nodes}
    assert settings["tgw-west"]["net.ipv4.fib_multipath_hash_policy"] == "1"
    assert "net.ipv4.fib_multipath_hash_policy" not in settings["client"]


def test_tunnels_of_a_group_have_the_same_networks_behind_them() -> None:
    ends = [end for end in PLAN.tunnels if end.node.startswith("vpn-a")]
    assert len(ends) == 4
    for one, other in pairwise(ends):
        assert one.outside == other.outside
        assert one.local != other.local
    outer = {end.local for end in PLAN.tunnels}
    assert not any(address in net for end in ends for net in end.outside for address in outer)


def test_all_tunnels_may_be_passed() -> None:
    found = traversed(SCENARIO, "client", "server")
    assert found is not None
    assert {f"link:vpn-{number}:forward" for number in range(1, 5)} <= found.directions
    assert {f"vpn-b{number}" for number in range(1, 5)} <= found.nodes


def test_equal_hops_agree_with_first_hops() -> None:
    topology = SCENARIO.topology
    for node in topology.nodes:
        first, equal = first_hops(topology, node), equal_hops(topology, node)
        assert list(first) == list(equal)
        assert all(equal[other][1][0] == hop for other, hop in first.items())
    assert shortest(topology, "client", "client") == ()
