"""Service functions of a network: what is refused, and which gateways get chains."""

from __future__ import annotations

from typing import Any

import pytest

from hawser.overlay.sdwan.network import fabric_of
from hawser.overlay.sdwan.steering import steering
from hawser.spec.check.network import network as check
from hawser.spec.network import Network
from hawser.spec.overlay import TrafficType
from lab.controller.branches import branches

FIREWALL = {"interface": "fw0", "next_hop": "192.0.2.130"}
PROBE = {
    "interface": "ids0",
    "next_hop": "192.0.2.134",
    "return_interface": "ids1",
    "return_next_hop": "192.0.2.138",
}
BOTH = {"b1": FIREWALL, "b2": FIREWALL}


def network(functions: Any, policy: Any, **more: Any) -> Network:  # noqa: ANN401 (JSON)
    ports = {
        f"gw{n}.a": {"address": f"192.0.2.{4 * n + 2}", "next_hop": f"192.0.2.{4 * n + 1}"}
        for n in (1, 2, 3)
    }
    overlay = {"transport": "quic", "branches": branches((1, 2, 3), "a")} | more.pop("overlay", {})
    described = {"name": "acme", "overlay": overlay, "ports": ports} | more
    return Network.model_validate(described | {"functions": functions, "policy": policy})


def test_gateways_that_have_the_functions_get_the_chain() -> None:
    found = network({"firewall": BOTH, "probe": BOTH | {"b1": PROBE, "b2": PROBE}}, CHAINS)
    assert not list(check(found))
    fabric = fabric_of(found)
    chains = steering(fabric, "b1")
    assert chains is not None
    assert chains.lan == "lan0"
    names = {traffic: [f.name for f in chain] for traffic, chain in chains.chains.items()}
    assert names == {TrafficType.I: ["firewall"], TrafficType.II: ["firewall", "probe"]}
    firewall, probe = chains.chains[TrafficType.II]
    assert (firewall.return_interface, probe.return_interface) == ("fw0", "ids1")
    assert steering(fabric, "b3") is None


CHAINS = {"I": {"chain": ["firewall"]}, "II": {"chain": ["firewall", "probe"]}}
ONE = {"II": {"chain": ["firewall"]}}


@pytest.mark.parametrize(
    ("functions", "policy", "more", "field", "message"),
    [
        ({"firewall": {"b1": FIREWALL}}, ONE, {}, "policy.II.chain", "neither b2 nor b3"),
        ({"firewall": BOTH}, {"II": {"chain": ["wall"]}}, {}, "policy.II.chain.0", "no function"),
        (
            {"firewall": BOTH},
            {"II": {"chain": ["firewall", "firewall"]}},
            {},
            "policy.II.chain.1",
            "a function once",
        ),
        (
            {"firewall": BOTH, "probe": {"b1": PROBE}},
            {"II": {"chain": ["firewall", "probe"]}},
            {},
            "policy.II.chain",
            "branch b2 has a part",
        ),
        (
            {"firewall": BOTH},
            {"III": {"chain": ["firewall"]}},
            {},
            "policy.III.chain",
            "expected class I or II",
        ),
        (
            {"firewall": BOTH},
            ONE,
            {"overlay": {"tcp_proxy": {"I": "tcp"}}},
            "policy.II.chain",
            "TCP proxy takes connections",
        ),
        (
            {"firewall": BOTH},
            ONE,
            {"prefixes": {"b3": ["2001:db8:3::/48"]}},
            "policy.II.chain",
            "b3 has IPv6 prefixes",
        ),
        ({"firewall": {"b9": FIREWALL}}, {}, {}, "functions.firewall.b9", "no branch"),
        (
            {"firewall": {"b1": FIREWALL | {"interface": "lan0"}}},
            {},
            {},
            "functions.firewall.b1.interface",
            "leads to the LAN",
        ),
        (
            {"firewall": {"b1": FIREWALL | {"interface": "a"}}},
            {},
            {},
            "functions.firewall.b1.interface",
            "leads to the WAN",
        ),
        (
            {"firewall": {"b1": FIREWALL}, "probe": {"b1": FIREWALL}},
            {},
            {},
            "functions.probe.b1.interface",
            "leads to function firewall",
        ),
        (
            {"firewall": {"b1": FIREWALL | {"return_interface": "fw1"}}},
            {},
            {},
            "functions.firewall.b1.return_next_hop",
            "together",
        ),
    ],
)
def test_what_cannot_be_enforced_is_refused(
    functions: Any,  # noqa: ANN401 (JSON)
    policy: Any,  # noqa: ANN401
    more: Any,  # noqa: ANN401
    field: str,
    message: str,
) -> None:
    (issue,) = check(network(functions, policy, **more))
    assert ".".join(map(str, issue.loc)) == field
    assert message in issue.message


def test_branches_that_do_not_talk_need_no_function() -> None:
    apart = {"access": {"b2": ["b1"], "b3": ["b1"]}}
    assert not list(check(network({"firewall": {"b1": FIREWALL}}, ONE, overlay=apart)))
    hubs = {"hubs": ["b1"]}
    assert not list(check(network({"firewall": {"b1": FIREWALL}}, ONE, overlay=hubs)))
