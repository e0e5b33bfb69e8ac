"""Which elements the packets of a measurement pass."""

from __future__ import annotations

import pytest

from hawser.overlay.lab.traversed import Traversed, traversed
from hawser.spec import load
from hawser.spec.workflow import Scenario

WORKFLOW = """\
hawser: 1
name: w
title: Three branches, and hosts beside them
topology:
  nodes: [h1, gw1, gw2, h2, gw3, h3, r, out]
  links:
    lan1: {ends: [h1.lan, gw1.lan]}
    lan2: {ends: [h2.lan, gw2.lan]}
    lan3: {ends: [h3.lan, gw3.lan]}
    side: {ends: [r.a, h1.side]}
  internet:
    ports: {gw1.a: {}, gw1.b: {}, gw2.a: {}, gw2.b: {}, gw3.a: {}, gw3.b: {}, out.a: {}}
    paths: {p: {ends: [gw2.a, gw1.a]}}
    bottlenecks: {m: {between: [[gw1.a, gw2.a]], rate: 10 Mbit/s}}
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan, prefix: 10.2.0.0/24}
    b3: {id: 3, gateway: gw3, wan: [a, b], lan: lan, prefix: 10.3.0.0/24}
  path_groups:
    direct: {paths: ["b1.a>b2.a", "b1.b>b3.b>b3.a>b2.b"]}
measurements:
  m: {probe: ping, from: h1, to: h2}
"""


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load("x.yaml", lambda _: WORKFLOW.encode()).variants[0].scenario


def passed(scenario: Scenario, source: str, target: str) -> Traversed:
    found = traversed(scenario, source, target)
    assert found is not None
    return found


def test_over_links_only_the_shortest_way_is_passed(scenario: Scenario) -> None:
    found = passed(scenario, "r", "gw1")
    assert found.directions == {"link:side:forward", "link:lan1:forward"}
    assert {"r", "h1", "gw1"} <= found.nodes
    assert "gw2" not in found.nodes


def test_between_branches_all_member_paths_are_passed_in_one_direction(scenario: Scenario) -> None:
    found = passed(scenario, "h1", "h2")
    assert found.directions == {
        "link:lan1:forward",
        "port:gw1.a:forward", "path:p:reverse", "bottleneck:m:forward", "port:gw2.a:reverse",
        "port:gw1.b:forward", "path:gw1.b-gw3.b:forward", "port:gw3.b:reverse",
        "port:gw3.a:forward", "path:gw2.b-gw3.a:reverse", "port:gw2.b:reverse",
        "link:lan2:reverse",
    }  # fmt: skip
    assert {"h1", "gw1", "gw3", "gw2", "h2"} <= found.nodes
    assert "h3" not in found.nodes
    assert found.passes("port:gw1.a:forward:II")
    assert not found.passes("bottleneck:m:forward:cross_traffic")


def test_backwards_all_directions_are_turned(scenario: Scenario) -> None:
    there, back = passed(scenario, "h1", "h2"), passed(scenario, "h2", "h1")
    assert there.nodes == back.nodes
    assert not there.directions & back.directions
    assert len(there.directions) == len(back.directions)


def test_a_wan_port_is_left_by_itself(scenario: Scenario) -> None:
    found = passed(scenario, "gw1.b", "out")
    assert found.directions == {
        "port:gw1.b:forward",
        "path:gw1.b-out.a:forward",
        "port:out.a:reverse",
    }
