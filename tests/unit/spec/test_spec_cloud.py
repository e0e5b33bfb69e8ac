"""A cloud's elements become nodes, links and tunnels, and say their caps."""

from __future__ import annotations

import pytest
from spec_files import loaded, mistakes

from hawser.spec.tunnel import TunnelKind
from hawser.spec.units import Duration, Rate
from hawser.spec.workflow import Scenario

START = """\
hawser: 1
name: cloud
title: Cloud
topology: {nodes: {client: {cpu: 1}, server: }}
measurements: {rtt: {probe: ping, from: client, to: server}}
cloud:
  scale: 4 %
  elements:
    west: {kind: vpc, region: us-west-2, nodes: [client]}
    east: {kind: vpc, region: us-east-2, nodes: [server]}
"""
GATEWAYS = """\
    gw: {kind: transit_gateway, region: us-west-2, attachments: [west]}
    ge: {kind: transit_gateway, region: us-east-2, attachments: [east]}
"""


def scenario(*elements: str, overrides: tuple[str, ...] = ()) -> Scenario:
    written = START + "".join(f"    {each}\n" if each[0] != " " else each for each in elements)
    return loaded(written, overrides).variants[0].scenario


def rates(found: Scenario) -> dict[str, Rate | None]:
    return {name: link.rate for name, link in found.topology.links.items()}


def test_vpcs_join_their_nodes_and_give_them_a_region() -> None:
    found = scenario("p: {kind: peering, between: [west, east]}")
    assert list(found.topology.nodes) == ["client", "server", "west", "east"]
    assert found.topology.nodes["client"].cpu == 1
    regions = [node.region for node in found.topology.nodes.values()]
    assert regions == ["us-west-2", "us-east-2"] * 2
    assert found.topology.links["west-client"].ends == ("client.vpc", "west.client")
    assert rates(found) == {
        "west-client": Rate(400e6), "east-server": Rate(400e6), "p": None,
    }  # fmt: skip


def test_caps_are_those_of_the_cloud_and_scaled() -> None:
    found = scenario(GATEWAYS, "p: {kind: peering, between: [gw, ge], delay: 9 ms}")
    assert rates(found)["gw-west"] == Rate(2e9)
    assert rates(found)["p"] == Rate(2e9)
    assert found.topology.links["p"].delay == Duration(0.009)
    whole = scenario(GATEWAYS, "p: {kind: peering, between: [gw, ge], rate: 5 Gbit/s}",
                     overrides=("cloud.scale=100 %",))  # fmt: skip
    assert rates(whole)["gw-west"] == Rate(50e9)
    assert rates(whole)["p"] == Rate(5e9)


def test_a_vpn_has_two_ends_a_tunnel_and_routers_that_spread_flows() -> None:
    found = scenario(GATEWAYS, "v: {kind: vpn, between: [gw, ge], tunnel: gre, tunnels: 3}")
    assert list(found.tunnels) == ["v-1", "v-2", "v-3"]
    tunnel = found.tunnels["v-2"]
    assert (tunnel.kind, tunnel.group) == (TunnelKind.GRE, "v")
    assert tunnel.ends == ("v-a2.out", "v-b2.out")
    assert rates(found)["v-3"] == Rate(50e6)
    assert {name for name, node in found.topology.nodes.items() if node.ecmp} == {"gw", "ge"}
    one = scenario(GATEWAYS, "v: {kind: vpn, between: [gw, ge], tunnel: gre}")
    assert not any(node.ecmp for node in one.topology.nodes.values())


def test_the_public_internet_is_a_detour() -> None:
    found = scenario(
        "iw: {kind: internet_gateway, vpc: west}",
        "ie: {kind: internet_gateway, vpc: east, detour: 3}",
    )
    assert found.topology.links["iw-ie"].delay == pytest.approx(3 * 0.0271, rel=0.01)


def test_overrides_change_elements() -> None:
    found = scenario(
        GATEWAYS,
        "v: {kind: vpn, between: [gw, ge], tunnel: gre}",
        overrides=("cloud.elements.v.tunnels=2", "cloud.elements.v.rate=2 Gbit/s"),
    )
    assert [rates(found)[name] for name in ("v-1", "v-2")] == [Rate(80e6)] * 2


def test_errors_in_a_cloud_cause_no_others() -> None:
    (said,) = mistakes(START + "    p: {kind: peering, between: [west, nowhere]}\n")
    assert said.startswith("x.yaml:11:40: cloud.elements.p.between.1: found 'nowhere', which is no")


def test_without_a_connection_there_is_no_route() -> None:
    (said,) = mistakes(START)
    assert "there is no route from client to server" in said
