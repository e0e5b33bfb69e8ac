"""NATs and the rendezvous, in workflows and in networks."""

from __future__ import annotations

import pytest
from spec_files import ROOT, mistakes

from hawser.spec.errors import SpecErrors
from hawser.spec.nat import port_pairs
from hawser.spec.network_file import load_network

WORKFLOW = (ROOT / "workflows" / "behind-nat.yaml").read_text()
HOME = tuple(
    f"topology.internet.ports.{gateway}.{port}.nat=endpoint-independent"
    for gateway in ("gw1", "gw2")
    for port in ("fibre", "lte")
)
ALONE = ("variants=null", "assert=null")


def told(*overrides: str) -> list[str]:
    return mistakes(WORKFLOW, (*ALONE, *HOME, *overrides))


def test_the_example_is_right() -> None:
    assert mistakes(WORKFLOW) == []
    assert told() == []


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("overlay.rendezvous=null",), "b1 and b2 are both behind a NAT, at gw1.fibre and gw2.f"),
        (
            ("overlay.rendezvous=null", *(f"{each.partition('=')[0]}=null" for each in HOME[:2])),
            "found none, but b1 connects to b2, which has the higher number and is behind a NAT at",
        ),
        (("overlay.rendezvous=b4",), "overlay.rendezvous: found 'b4', expected b1, b2"),
        (("overlay.rendezvous=b2",), "found b2, expected the branch with the highest number, wh"),
        (
            ("topology.internet.ports.gw3.a.nat=endpoint-independent",),
            "found b3, expected a branch with public addresses: gw3.a is behind a NAT",
        ),
        (("overlay.transport=mptcp",), "found one with the mptcp transport, expected one only"),
        (
            ("overlay.transport=mptcp", "overlay.rendezvous=null", "overlay.encryption=none"),
            "overlay.encryption: found none, but gw1.fibre is behind a NAT, expected tls13",
        ),
        (("overlay.transport=ipip", "overlay.rendezvous=null"), "transport: found ipip, but gw1.f"),
        (("overlay.switch=bpf",), "overlay.switch: found bpf, but gw1.fibre is behind a NAT"),
        (
            ("overlay.path_groups={far: {paths: [b1.fibre>b3.a>b3.a>b2.fibre]}}",),
            "found bpf, but gw1.fibre is behind a NAT, expected none: entries of a switch name",
        ),
        (
            ("overlay.family=6",),
            "overlay.family: found 6 at gw1.fibre, which is behind a NAT of IPv4",
        ),
        (
            ("topology.internet.ports.gw1.lte.family=6",),
            "topology.internet.ports.gw1.lte.family: found 6 at gw1.lte, which is behind a NAT",
        ),
        (
            ("topology.internet.ports.gw1.lte.type=leased",),
            "gw1.lte.nat: found endpoint-independent at a leased line, expected none",
        ),
        (
            ("overlay.path_groups={turned: {paths: [b1.lte>b2.fibre]}}",),
            "turned.paths.0: found a path from gw1.lte behind NAT at place 1, where no path",
        ),
        (
            ("overlay.path_groups={one: {paths: [b3.a>b1.fibre]}}",),
            "overlay.rendezvous: found a path from gw1.lte behind NAT at place 2, where no path",
        ),
        (("overlay.hubs=[b2]",), "found a path from gw1.fibre behind NAT at place 1, where no pat"),
        (("measurements.rtt.to=gw2.fibre",), "rtt.to: there is no route back: h1 has a private"),
        (
            ("measurements.rtt.from=gw3.a", "measurements.rtt.to=gw2.fibre"),
            "measurements.rtt.to: nobody reaches gw2.fibre, which is behind a NAT",
        ),
        (
            ("topology.internet.ports.gw1.lte.nat=cone",),
            "found 'cone', expected endpoint-independent, address",
        ),
    ],
)
def test_mistakes_are_told(overrides: tuple[str, ...], expected: str) -> None:
    found = told(*overrides)
    assert any(expected in message for message in found), found


def test_a_branch_behind_nat_connects_to_one_with_a_public_address() -> None:
    """By `mptcp` too, and without anybody who introduces them."""
    public = [f"topology.internet.ports.gw2.{port}.nat=null" for port in ("fibre", "lte")]
    for transport in ("quic", "mptcp"):
        chosen = (f"overlay.transport={transport}", "overlay.rendezvous=null")
        assert told(*public, *chosen) == []


def test_groups_of_the_same_places_are_introduced() -> None:
    groups = "{a: {paths: [b1.lte>b2.lte]}, b: {paths: [b3.a>b1.lte]}, c: {paths: [b2.lte>b3.a]}}"
    assert told(f"overlay.path_groups={groups}") == []


def test_the_first_paths_to_the_rendezvous_begin_at_each_port() -> None:
    assert port_pairs("ab", "xyz", rendezvous=True, introduced=False) == [
        ("a", "x"), ("b", "y"), ("a", "y"), ("b", "z"), ("a", "z"), ("b", "x")
    ]  # fmt: skip
    assert port_pairs("abc", "xy", rendezvous=False, introduced=True) == [("a", "x"), ("b", "y")]


NETWORK = """
hawser: 1
name: acme
overlay:
  transport: quic
  rendezvous: b9
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan0, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan0, prefix: 10.2.0.0/24}
    b9: {id: 9, gateway: gw9, wan: [a], lan: lan0, prefix: 10.9.0.0/24}
ports:
  gw1.a: {address: 192.168.1.2, next_hop: 192.168.1.1, behind_nat: true, label: fibre}
  gw1.b: {address: 192.168.8.2, next_hop: 192.168.8.1, behind_nat: true, label: lte}
  gw2.a: {address: 192.168.1.2, next_hop: 192.168.1.1, behind_nat: true, label: fibre}
  gw2.b: {address: 192.0.2.6, next_hop: 192.0.2.5, label: lte}
  gw9.a: {address: 192.0.2.10, next_hop: 192.0.2.9, label: fibre}
"""
PAIR = """pairs: {{{}: {{gateway: gw8, wan: [a], lan: lan0, address: {}}}}}
ports:
  gw8.a: {{address: 192.0.2.14, next_hop: 192.0.2.13"""


def refused(text: str) -> str:
    with pytest.raises(SpecErrors) as caught:
        load_network(text, "acme.yaml")
    return "\n".join(str(error) for error in caught.value.errors)


def test_two_gateways_may_have_the_same_address_behind_their_nats() -> None:
    assert load_network(NETWORK, "acme.yaml").overlay.rendezvous == "b9"
    twice = NETWORK.replace("192.168.8.2", "192.168.1.2")
    assert "gw1.b.address: found 192.168.1.2, an address of gw1.a too" in refused(twice)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("rendezvous: b9", "queue: 1 MB", "overlay.rendezvous: found none, but b1 and b2 are both"),
        ("gw9.a: {", "gw9.a: {behind_nat: true, ", "found b9, expected a branch with public addr"),
        ("label: lte}\n  gw2.a", "type: leased}\n  gw2.a", "b.behind_nat: found true at a leased"),
        (
            "\nports:",
            f"\n{PAIR.format('b9', '10.9.0.2')}, behind_nat: true}}",
            "ports.gw8.a.behind_nat: found true, but gateways of lower numbers than 9 connect to",
        ),
        (
            "\nports:",
            f"\n{PAIR.format('b1', '10.1.0.2')}}}",
            "pairs: the rendezvous knows one gateway a branch: expected no overlay.rendezvous",
        ),
        (
            "\nports:",
            "\npolicy: {I: {labels: [lte, fibre]}, II: {labels: [lte]}}\nports:",
            "policy.II.labels",
        ),
    ],
)
def test_mistakes_of_a_network_are_told(old: str, new: str, expected: str) -> None:
    assert expected in refused(NETWORK.replace(old, new, 1))
