"""Networks: read from files, checked, turned into a fabric and into the topology of a lab."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.check import topology as check_topology
from hawser.spec.check.network import network as check
from hawser.spec.errors import SpecErrors
from hawser.spec.network import Network, topology
from hawser.spec.network_file import load_network

ACME = """
hawser: 1
name: acme
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan0, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan0, prefix: 10.2.0.0/24}
    b3: {id: 3, gateway: gw3, wan: [a], lan: lan0, prefix: 10.3.0.0/24}
  path_groups:
    far: {id: 2, paths: [b1.a>b3.a>b3.a>b2.b, b1.b>b2.b]}
ports:
  gw1.a: {interface: eth0.7, address: 192.0.2.2, next_hop: 192.0.2.1, rate: 40 Mbit/s, label: lte}
  gw1.b: {address: 192.0.2.6, next_hop: 192.0.2.5, cost_per_gb: 2.5, quota_gb: 100}
  gw2.a: {address: 192.0.2.10, next_hop: 192.0.2.9}
  gw2.b: {address: 192.0.2.14, next_hop: 192.0.2.13}
  gw3.a: {address: 192.0.2.18, next_hop: 192.0.2.17, rate: 40 Mbit/s, download: 100 Mbit/s}
prefixes: {b3: [10.33.0.0/16, "fd00:3::/48"]}
"""


def messages(text: str) -> list[str]:
    with pytest.raises(SpecErrors) as caught:
        load_network(text, "acme.yaml")
    return [str(error) for error in caught.value.errors]


def told(text: str, old: str, new: str) -> list[str]:
    """What is said of a network in which a part is another."""
    assert old in text
    return messages(text.replace(old, new, 1))


def test_a_network_becomes_configurations() -> None:
    network = load_network(ACME, "acme.yaml")
    fabric = fabric_of(network)
    made = configurations(fabric)
    assert set(made) == {"b1", "b2", "b3"}
    assert made["b1"].source == IPv4Address("10.1.0.1")
    peer = next(peer for peer in made["b1"].peers if peer.branch == "b3")
    assert [str(prefix) for prefix in peer.prefixes] == [
        "10.3.0.0/24", "10.33.0.0/16", "fd00:3::/48"
    ]  # fmt: skip
    switch = made["b3"].switch
    assert switch is not None  # the group leads through it
    assert switch.ports[0].interface == "a"
    assert any("transit" in entry.name for entry in switch.entries)
    first = made["b1"].switch
    assert first is not None
    assert [port.interface for port in first.ports] == ["eth0.7", "b"]


def test_its_document_is_read_back_unchanged() -> None:
    network = load_network(ACME, "acme.yaml")
    assert load_network(network.model_dump_json(by_alias=True), "dump.json") == network
    assert Network.model_validate_json(network.model_dump_json(by_alias=True)) == network


def test_the_lab_that_is_like_it_is_a_sound_topology() -> None:
    like = topology(load_network(ACME, "acme.yaml"))
    assert not list(check_topology(like))
    assert like.internet is not None
    assert str(like.internet.ports["gw3.a"].reverse.rate) == "100 Mbit/s"  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("transport: quic", "transport: ipip", "overlay.transport: found ipip, expected mptcp or"),
        ("transport: quic", "transport: mptcp", "ports.gw2.a.second: found none, expected an"),
        ("transport: quic", "transport: {}", "acme.yaml:5:14"),
        ("  gw3.a: {", "  gw4.a: {", "ports.gw4.a: found port"),
        ("gw2.b: {address: 192.0.2.14", "gw2.b: {address: 192.0.2.10", "an address of gw2.a too"),
        ("eth0.7", "b", "ports.gw1.b.interface: found b, that of gw1.a too"),
        ("next_hop: 192.0.2.9}", "next_hop: 192.0.2.10}", "the port's own address"),
        ("lan: lan0, prefix: 10.3", "lan: a, prefix: 10.3", "a WAN port of gw3 too"),
        ("10.33.0.0/16", "10.2.0.0/16", "prefixes.b3.0: found 10.2.0.0/16, which overlaps"),
        ("10.33.0.0/16", "192.0.2.8/29", "ports.gw2.a.address: found 192.0.2.10, which is in"),
        ("prefixes: {b3", "prefixes: {b4", "found b4, which is no branch"),
        ("wan: [a, b], lan: lan0, prefix: 10.1", "wan: [a, c], lan: lan0, prefix: 10.1", "'c'"),
        ("quota_gb: 100", "quota_gb: 0", "more than 0"),
        ("b1.b>b2.b]", "b1.b>b3.a]", "paths of several pairs"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, message: str) -> None:
    found = told(ACME, old, new)
    assert any(message in each for each in found), found
    assert all(each.startswith("acme.yaml:") for each in found)


ACME6 = ACME.replace("192.0.2.", "2001:db8::").replace(
    "next_hop: 2001:db8::17", "next_hop: fe80::1"
)
B = (
    "gw1.b: {address: 192.0.2.6, next_hop: 192.0.2.5",
    "gw2.b: {address: 192.0.2.14, next_hop: 192.0.2.13",
)
MIXED = ACME.replace("b1.a>b3.a>b3.a>b2.b", "b1.a>b3.a>b3.a>b2.a")
for line in B:
    MIXED = MIXED.replace(line, line.replace("192.0.2.", "2001:db8::"))


def test_lines_may_have_ipv6_alone() -> None:
    network = load_network(ACME6, "acme.yaml")
    made = configurations(fabric_of(network))
    switch = made["b3"].switch
    assert switch is not None
    (port,) = switch.ports
    assert (str(port.address6), str(port.next_hop6)) == ("2001:db8::18", "fe80::1")
    assert port.address is port.next_hop is None
    assert {"address", "next_hop"}.isdisjoint(port.model_dump(exclude_none=True))
    assert all(entry.match.source.version == 6 for entry in switch.entries)
    agents = {
        path.local for peer in made["b1"].peers for group in peer.groups for path in group.paths
    }
    assert {each.version for each in agents} == {6}


def test_lines_of_both_versions_have_paths_of_their_own() -> None:
    network = load_network(MIXED, "acme.yaml")
    made = configurations(fabric_of(network))
    to = {
        (name, peer.branch): [(str(path.local), str(path.remote)) for path in group.paths]
        for name, config in made.items()
        for peer in config.peers
        for group in peer.groups
    }
    assert to["b1", "b2"] == [("192.0.2.2", "192.0.2.10"), ("2001:db8::6", "2001:db8::14")]
    assert to["b1", "b3"] == [("192.0.2.2", "192.0.2.18")]  # b3 has no line of IPv6
    for config in made.values():
        assert config.switch is not None
        for entry in config.switch.entries:
            ends = (*dict(entry.match).values(), *dict(entry.write).values())
            assert len({each.version for each in ends if hasattr(each, "version")}) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("b3.a>b2.a", "b3.a>b2.b", "b1.a>b3.a>b3.a>b2.b, but b3.a has IPv4 and b2.b has IPv6"),
        (
            "transport: quic",
            "transport: mptcp",
            "overlay.transport: found mptcp, whose connections",
        ),
        (
            "transport: quic",
            "transport: quic\n  paths: automatic",
            "overlay.paths: found automatic",
        ),
        (
            "transport: quic",
            "transport: quic\n  rendezvous: b3",
            "overlay.rendezvous: found b3, but",
        ),
        (
            "transport: quic",
            "transport: quic\n  switch: openflow",
            "overlay.switch: found openflow",
        ),
        (
            "cost_per_gb: 2.5",
            "behind_nat: true",
            "ports.gw1.b.behind_nat: found true at a line of IPv6",
        ),
    ],
)
def test_mistakes_where_lines_have_both_versions(old: str, new: str, message: str) -> None:
    found = told(MIXED, old, new)
    assert any(message in each for each in found), found


def test_branches_without_a_version_in_common_need_no_tunnel() -> None:
    alone = MIXED.replace("192.0.2.18, next_hop: 192.0.2.17", "fd00::1, next_hop: fe80::1")
    alone = alone.replace("wan: [a, b]", "wan: [a]").replace(
        "b1.a>b3.a>b3.a>b2.a, b1.b>b2.b", "b1.a>b2.a"
    )
    alone = "\n".join(line for line in alone.splitlines() if ".b: {" not in line)
    found = messages(alone)
    assert len(found) == 2
    assert all("one of the two branches has only IPv4 and the other only IPv6" in x for x in found)
    apart = alone.replace("transport: quic", "transport: quic\n  access: {b3: []}")
    assert set(configurations(fabric_of(load_network(apart, "acme.yaml")))["b3"].peers) == set()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2001:db8::14", "192.0.2.14", "gw2.b.next_hop: found 2001:db8::13, expected one of IPv4"),
        ("2001:db8::14", "fe80::2", "ports.gw2.b.address: found fe80::2, expected one that more"),
        (
            "2001:db8::13",
            "2001:db8::13, second: 192.0.2.9",
            "ports.gw2.b.second: found 192.0.2.9, expected none",
        ),
        (
            "fe80::1",
            "fe80::1%eth0",
            "ports.gw3.a.next_hop: found fe80::1%eth0, expected it without",
        ),
        ("2001:db8::14", "2001:db8::10", "an address of gw2.a too"),
        (
            "transport: quic",
            "transport: quic\n  switch: openflow",
            "overlay.switch: found openflow, whose flows match addresses of IPv4",
        ),
    ],
)
def test_mistakes_in_lines_of_ipv6(old: str, new: str, message: str) -> None:
    found = told(ACME6, old, new)
    assert any(message in each for each in found), found


def test_what_is_no_mapping_is_refused() -> None:
    assert messages("[1, 2]") == ["acme.yaml:1:1: expected a mapping"]


def test_branches_beyond_960_need_labels_with_5_low_bits() -> None:
    """All have one hub, for a full mesh takes a while to check."""

    def with_branches(count: int, bits: int) -> list[str]:
        branches = {
            f"b{n}": {
                "id": n,
                "gateway": f"gw{n}",
                "wan": ["a"],
                "lan": "lan0",
                "prefix": f"10.{n // 256}.{n % 256}.0/24",
            }
            for n in range(count)
        }
        ports = {
            f"gw{n}.a": {"address": f"198.18.{n // 200}.{n % 200 + 2}", "next_hop": "198.18.255.1"}
            for n in range(count)
        }
        overlay = {"transport": "quic", "label_bits": bits, "branches": branches, "hubs": ["b0"]}
        described = {"name": "many", "overlay": overlay, "ports": ports}
        return [each.message for each in check(Network.model_validate(described))]

    assert with_branches(960, 6) == []
    (message,) = with_branches(961, 6)
    assert message.startswith("found 961 branches, expected at most 960: with label_bits: 6 a path")
    assert with_branches(1920, 5) == []
