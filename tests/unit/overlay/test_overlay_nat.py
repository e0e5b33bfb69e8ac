"""Branches behind NATs: in the plan of a lab, and in the configurations of gateways."""

from __future__ import annotations

from typing import Any

import pytest
from overlay_text import emitted
from spec_files import ROOT, read

from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NatPlan, NetworkPlan, NodePlan
from hawser.overlay.lab.traversed import traversed
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec import Scenario, load
from hawser.spec.network_file import load_network
from hawser.spec.topology import Nat


def scenario(nat: str) -> Scenario:
    workflow = load(str(ROOT / "workflows" / "behind-nat.yaml"), read)
    return next(v.scenario for v in workflow.variants if v.labels["nat"] == nat)


def node(plan: NetworkPlan, name: str) -> NodePlan:
    return next(each for each in plan.nodes if each.name == name)


def paths(config: dict[str, Any], peer: str) -> list[tuple[str, str | None]]:
    (group,) = next(each["groups"] for each in config["peers"] if each["branch"] == peer)
    return [(path["local"], path.get("remote")) for path in group["paths"]]


def test_a_node_between_the_port_and_the_internet_translates() -> None:
    plan = network(scenario("mobile"))
    nat, gateway = node(plan, "nat:gw1:lte"), node(plan, "gw1")
    assert (nat.role, nat.nat) == (
        "nat", NatPlan(outside="out", mapping=Nat.ADDRESS_AND_PORT_DEPENDENT)
    )  # fmt: skip
    assert [(i.name, *map(str, i.addresses)) for i in nat.interfaces] == [
        ("in", "100.64.0.9/29"), ("out", "198.18.0.10/29"),
    ]  # fmt: skip
    assert nat.sysctl["net.ipv4.ip_forward"] == "1"
    assert str(plan.addresses["gw1.lte"]) == "100.64.0.10"
    assert {(str(r.via), r.interface, r.table) for r in gateway.routes} == {
        ("100.64.0.1", "fibre", None), ("100.64.0.1", "fibre", 101), ("100.64.0.9", "lte", 102),
    }  # fmt: skip
    assert {str(rule.source) for rule in gateway.rules} == {"100.64.0.2/31", "100.64.0.10/31"}
    ends = {link.name: link.ends for link in plan.links}
    assert ends["gw1.lte"] == (("gw1", "lte"), ("nat:gw1:lte", "in"))
    assert ends["nat:gw1:lte"] == (("nat:gw1:lte", "out"), ("internet", "wan1"))
    assert "nat:gw3:a" not in {each.name for each in plan.nodes}


def test_paths_are_told_by_the_public_address() -> None:
    plan = network(scenario("home"))
    down = next(each for each in plan.shapers if each.name == "port:gw2.fibre:reverse")
    sources = {each.name: str(each.source) for each in down.classes}
    assert sources["path:fibre:forward"] == "198.18.0.2/31"


def test_a_measurement_passes_the_nats() -> None:
    passed = traversed(scenario("home"), "h1", "h2")
    assert passed is not None
    assert {"nat:gw1:fibre", "nat:gw2:lte"} <= passed.nodes


def test_gateways_are_introduced_on_paths_of_the_same_place() -> None:
    config: dict[str, Any] = {
        str(each.config.model_dump()["branch"]): emitted(each)
        for each in network(scenario("home")).daemons
    }
    assert {each["rendezvous"] for each in config.values()} == {"b3"}
    own = ["100.64.0.2", "100.64.0.10"]
    assert paths(config["b1"], "b2") == [(each, None) for each in own]
    assert paths(config["b1"], "b3") == [(each, "198.18.0.34") for each in own]
    assert paths(config["b2"], "b3") == [
        ("100.64.0.18", "198.18.0.34"), ("100.64.0.26", "198.18.0.34")
    ]  # fmt: skip
    assert paths(config["b3"], "b1") == [("198.18.0.34", None)] * 2


def test_without_nats_all_addresses_are_known() -> None:
    config: Any = emitted(network(scenario("none")).daemons[0])
    assert len(paths(config, "b2")) == 4
    assert all(remote for _, remote in paths(config, "b2"))


@pytest.mark.parametrize("rendezvous", ["b9", None])
def test_a_network_behind_nats(rendezvous: str | None) -> None:
    text = """
hawser: 1
name: acme
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan0, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a], lan: lan0, prefix: 10.2.0.0/24}
    b9: {id: 9, gateway: gw9, wan: [a], lan: lan0, prefix: 10.9.0.0/24}
  access: {b2: [b9]}
ports:
  gw1.a: {address: 192.168.1.2, next_hop: 192.168.1.1, behind_nat: true}
  gw1.b: {address: 192.0.2.6, next_hop: 192.0.2.5}
  gw2.a: {address: 192.168.1.2, next_hop: 192.168.1.1, behind_nat: true}
  gw9.a: {address: 192.0.2.10, next_hop: 192.0.2.9}
"""
    if rendezvous:
        text = text.replace("transport: quic", f"transport: quic\n  rendezvous: {rendezvous}")
    made = configurations(fabric_of(load_network(text, "acme.yaml")))
    assert {config.rendezvous for config in made.values()} == {rendezvous}
    config = {name: emitted_config.model_dump(mode="json") for name, emitted_config in made.items()}
    assert paths(config["b1"], "b9") == [("192.168.1.2", "192.0.2.10"), ("192.0.2.6", "192.0.2.10")]
    assert paths(config["b9"], "b1") == [("192.0.2.10", None), ("192.0.2.10", "192.0.2.6")]
    assert paths(config["b9"], "b2") == [("192.0.2.10", None)]
