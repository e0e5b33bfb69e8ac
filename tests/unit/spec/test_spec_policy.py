"""A network's policy: path groups and rules that follow from it, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.errors import SpecErrors
from hawser.spec.network_file import load_network

ACME = """
hawser: 1
name: acme
overlay:
  transport: quic
  switch: bpf
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan0, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan0, prefix: 10.2.0.0/24}
    b3: {id: 3, gateway: gw3, wan: [a], lan: lan0, prefix: 10.3.0.0/24}
ports:
  gw1.a: {address: 192.0.2.2, next_hop: 192.0.2.1, label: fibre}
  gw1.b: {address: 192.0.2.6, next_hop: 192.0.2.5, label: lte}
  gw2.a: {address: 192.0.2.10, next_hop: 192.0.2.9, label: fibre}
  gw2.b: {address: 192.0.2.14, next_hop: 192.0.2.13, label: lte}
  gw3.a: {address: 192.0.2.18, next_hop: 192.0.2.17, label: fibre}
applications:
  voice: {addresses: [10.2.0.64/26, 10.3.0.9/32], protocol: udp, ports: [5060, 5061]}
  backup: {protocol: tcp, ports: [873, 873]}
  office: {addresses: [203.0.113.0/24]}
  named: {names: ["*.example.org"]}
policy:
"""


NAMED = '  named: {names: ["*.example.org"]}\n'


def places(policy: str) -> Mapping[str, str]:
    """What is refused, by field."""
    with pytest.raises(SpecErrors) as caught:
        load_network(ACME.replace(NAMED, "") + policy, "acme.yaml")
    return {each.field: each.message for each in caught.value.errors}


def groups(policy: str, branch: str, peer: str) -> dict[int, tuple[str, set[tuple[str, str]]]]:
    """Groups of a gateway to a peer: class, and the last bytes of its paths' addresses."""
    text = ACME.replace(NAMED, "") + policy
    made = configurations(fabric_of(load_network(text, "acme.yaml")))[branch]
    found = next(each for each in made.peers if each.branch == peer)
    return {
        group.id: (
            group.traffic.value,
            {(str(p.local).split(".")[3], str(p.remote).split(".")[3]) for p in group.paths},
        )
        for group in found.groups
    }


ALL = {("2", "10"), ("2", "14"), ("6", "10"), ("6", "14")}


def test_a_class_uses_ports_with_its_labels_and_can_fall_back() -> None:
    policy = "  II: {labels: [fibre]}\n"
    assert groups(policy, "b1", "b2") == {0: ("II", {("2", "10")}), 1: ("I", ALL)}
    assert groups(policy, "b1", "b3") == {
        0: ("II", {("2", "18")}),
        1: ("I", {("2", "18"), ("6", "18")}),
    }


def test_two_classes_share_all_ports() -> None:
    policy = "  I: {labels: [fibre]}\n"
    assert groups(policy, "b2", "b1")[1] == ("I", {("10", "2")})
    assert len(groups(policy, "b2", "b1")[0][1]) == 4


def test_drop_is_enforced_where_no_other_path_is_left() -> None:
    policy = "  I: {labels: [fibre], otherwise: drop}\n  II: {labels: [fibre], otherwise: drop}\n"
    only = {("2", "10")}
    assert groups(policy, "b1", "b2") == {0: ("II", only), 1: ("I", only)}


def test_described_groups_come_first() -> None:
    policy = "  II: {labels: [fibre]}\n"
    text = policy + ""
    described = ACME.replace("ports:\n", "  path_groups: {own: {paths: [b1.b>b2.b]}}\nports:\n", 1)
    described = described.replace(NAMED, "")
    made = configurations(fabric_of(load_network(described + text, "acme.yaml")))["b1"]
    peer = next(each for each in made.peers if each.branch == "b2")
    assert [len(group.paths) for group in peer.groups] == [1]
    assert str(peer.groups[0].paths[0].local) == "192.0.2.6"


def test_applications_become_rules_of_the_classifier() -> None:
    policy = "  I: {applications: [voice]}\n  II: {applications: [backup]}\n"
    policy += "  III: {applications: [office]}\n"
    text = ACME.replace(NAMED, "") + policy
    classifier = configurations(fabric_of(load_network(text, "acme.yaml")))["b1"].classifier
    assert classifier is not None
    assert [rule.name for rule in classifier.rules] == [
        "voice-0-to", "voice-0-from", "voice-1-to", "voice-1-from",
        "backup-0-to", "backup-0-from", "office-0-to", "office-0-from",
    ]  # fmt: skip
    there, back = classifier.rules[:2]
    assert (str(there.destination), there.destination_ports) == ("10.2.0.64/26", (5060, 5061))
    assert (str(back.source), back.source_ports) == ("10.2.0.64/26", (5060, 5061))
    assert (there.destination, there.protocol) == (back.source, "udp")
    assert {rule.type.value for rule in classifier.rules[-2:]} == {"III"}


@pytest.mark.parametrize(
    ("policy", "field", "message"),
    [
        ("  I: {sla: {delay: 50 ms}}", "policy.I.sla", "cannot enforce"),
        ("  I: {max_rate: 1 Mbit/s}", "policy.I.max_rate", "cannot limit"),
        ("  I: {chain: [firewall]}", "policy.I.chain", "no service functions"),
        ("  I: {applications: [vioce]}", "policy.I.applications.0", "did you mean 'voice'"),
        ("  I: {labels: [fiber]}", "policy.I.labels.0", "did you mean 'fibre'"),
        ("  I: {labels: [lte]}", "policy.I.labels", "no path between b1 and b3"),
        ("  III: {labels: [fibre]}", "policy.III.labels", "class III"),
        ("  II: {otherwise: drop}", "policy.II.otherwise", "expected labels"),
        ("  II: {labels: [fibre], otherwise: drop}", "policy.II.otherwise", "other class has more"),
        (
            "  I: {labels: [fibre]}\n  II: {labels: [fibre]}",
            "policy.II.otherwise",
            "used by no class",
        ),
        (
            "  I: {applications: [voice]}\n  II: {applications: [voice]}",
            "policy.II.applications.0",
            "class I too",
        ),
        ("  IV: {}", "policy.IV", "found 'IV'"),
    ],
)
def test_what_gateways_cannot_do_is_refused_at_its_place(
    policy: str, field: str, message: str
) -> None:
    assert message in places(policy + "\n")[field]


@pytest.mark.parametrize(
    ("application", "field", "message"),
    [
        ("{names: [example.org]}", "names", "cannot match DNS names yet"),
        ("{}", "", "all traffic"),
        ("{ports: [80, 80]}", "ports", "tcp or udp"),
        ("{protocol: tcp, ports: [81, 80]}", "ports", "lower one first"),
    ],
)
def test_wrong_applications_are_refused(application: str, field: str, message: str) -> None:
    text = ACME.replace('{names: ["*.example.org"]}', application).replace("policy:\n", "")
    with pytest.raises(SpecErrors) as caught:
        load_network(text, "acme.yaml")
    (error,) = caught.value.errors
    assert error.field == ".".join(filter(None, ("applications.named", field)))
    assert message in error.message


def test_labels_need_the_transport_quic_and_breakout_a_switch() -> None:
    text = ACME.replace(NAMED, "")
    text = text.replace("  switch: bpf\n", "") + "  III: {applications: [office]}\n"
    with pytest.raises(SpecErrors, match="lead nothing out"):
        load_network(text, "acme.yaml")


def test_labels_and_automatic_paths_exclude_each_other() -> None:
    text = ACME.replace(NAMED, "").replace("overlay:\n", "overlay:\n  paths: automatic\n", 1)
    with pytest.raises(SpecErrors, match="knows no labels yet"):
        load_network(text + "  I: {labels: [fibre]}\n", "acme.yaml")
