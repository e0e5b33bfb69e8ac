"""A network's policy: path groups and rules that follow from it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.errors import SpecErrors
from hawser.spec.network_file import load_network
from hawser.spec.overlay import TrafficType
from hawser.spec.policy import Otherwise

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


def configured(policy: str, branch: str, overlay: str = "") -> GatewayConfig:
    """A gateway's configuration."""
    text = ACME.replace(NAMED, "").replace("  switch: bpf\n", f"  switch: bpf\n{overlay}") + policy
    return configurations(fabric_of(load_network(text, "acme.yaml")))[branch]


def test_what_a_class_does_without_its_paths_is_said_to_gateways() -> None:
    policy = "  I: {labels: [fibre], otherwise: drop}\n"
    found = configured(policy, "b1").peers[0].groups
    assert [(group.traffic, group.otherwise) for group in found] == [
        (TrafficType.II, Otherwise.ANY),
        (TrafficType.I, Otherwise.DROP),
    ]


def test_thresholds_make_a_group_for_each_class_and_reach_described_ones() -> None:
    policy = "  I: {sla: {delay: 50 ms, loss: 1 %, leave_after: 500 ms}}\n"
    second, first = configured(policy, "b1").peers[0].groups
    assert (len(second.paths), second.sla) == (4, None)
    assert len(first.paths) == 4
    assert first.sla is not None
    assert first.sla.model_dump(mode="json") == {
        "delay_us": 50_000,
        "loss_ppm": 10_000,
        "margin_ppm": 100_000,
        "leave_after_ms": 500,
        "enter_after_ms": 10_000,
    }
    described = "  path_groups: {own: {class: I, paths: [b1.b>b2.b]}}\n"
    (group,) = configured(policy, "b1", described).peers[0].groups
    assert group.sla == first.sla


def test_rates_are_said_to_every_gateway() -> None:
    policy = "  I: {max_rate: 2 Mbit/s}\n  III: {max_rate: 100 Mbit/s}\n"
    found = configured(policy, "b3")
    assert (found.max_rate_bps.urgent, found.max_rate_bps.other) == (2_000_000, None)
    assert found.max_rate_bps.direct == 100_000_000
    assert json.loads(found.model_dump_json())["max_rate_bps"] == {"I": 2e6, "III": 1e8}
    assert found.classifier is not None, "without one nothing breaks out"
    assert "max_rate_bps" not in json.loads(configured("  I: {}\n", "b3").model_dump_json())


def test_branches_that_are_kept_apart_have_no_tunnel_and_prohibit_each_other() -> None:
    for policy in ("  I: {}\n", "  I: {labels: [fibre]}\n"):
        access = "  access: {b3: [b1]}\n"
        one, two, three = (configured(policy, name, access) for name in ("b1", "b2", "b3"))
        assert [peer.branch for peer in one.peers] == ["b2", "b3"]
        assert one.prohibited == ()
        assert [peer.branch for peer in two.peers] == ["b1"]
        assert list(map(str, two.prohibited)) == ["10.3.0.0/24"]
        assert [peer.branch for peer in three.peers] == ["b1"]
        assert list(map(str, three.prohibited)) == ["10.2.0.0/24"]


@pytest.mark.parametrize(
    ("overlay", "field", "message"),
    [
        ("  access: {b4: []}\n", "overlay.access.b4", "found 'b4'"),
        ("  access: {b1: [b2, b9]}\n", "overlay.access.b1.1", "found 'b9'"),
        (
            "  access: {b1: []}\n  path_groups: {own: {paths: [b2.a>b1.a]}}\n",
            "overlay.path_groups.own.paths.0",
            "keeps apart",
        ),
    ],
)
def test_wrong_access_is_refused_at_its_place(overlay: str, field: str, message: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        configured("  I: {}\n", "b1", overlay)
    found = {each.field: each.message for each in caught.value.errors}
    assert message in found[field]


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
        ("  I: {sla: {}}", "policy.I.sla", "no threshold"),
        ("  III: {sla: {delay: 50 ms}}", "policy.III.sla", "do not measure the internet"),
        ("  I: {sla: {delay: 2 h}}", "policy.I.sla.delay", "at most an hour"),
        ("  I: {sla: {loss: 1 %, margin: 95 %}}", "policy.I.sla.margin", "at most 90%"),
        ("  I: {sla: {loss: 1 %, leave_after: 2 h}}", "policy.I.sla.leave_after", "an hour"),
        ("  I: {max_rate: 1 kbit/s}", "policy.I.max_rate", "at least 8 kbit/s"),
        ("  I: {chain: [firewall]}", "policy.I.chain.0", "no function"),
        ("  I: {applications: [vioce]}", "policy.I.applications.0", "did you mean 'voice'"),
        ("  I: {labels: [fiber]}", "policy.I.labels.0", "did you mean 'fibre'"),
        ("  I: {labels: [lte]}", "policy.I.labels", "no path between b1 and b3"),
        ("  III: {labels: [fibre]}", "policy.III.labels", "class III"),
        ("  II: {otherwise: drop}", "policy.II.otherwise", "expected labels or sla"),
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
        ("{names: [example.org, '*.example.org']}", "names.1", "they match no wildcard"),
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
