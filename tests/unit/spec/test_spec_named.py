"""Which addresses of DNS names become rules of the classifier."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.spec.check.network import network as check
from hawser.spec.match import RULES
from hawser.spec.named import MAX_ADDRESSES, used_addresses, with_addresses
from hawser.spec.network import Network
from hawser.spec.policy_groups import policy_classes
from lab.controller.branches import branches


def network(applications: Mapping[str, Any], policy: Mapping[str, Any]) -> Network:
    """Branches b1 and b2; b2 has more prefixes than its LAN."""
    ports = {
        f"gw{n}.a": {"address": f"192.0.2.{4 * n + 2}", "next_hop": f"192.0.2.{4 * n + 1}"}
        for n in (1, 2)
    }
    made = Network.model_validate(
        {
            "name": "acme",
            "overlay": {"transport": "quic", "switch": "bpf", "branches": branches((1, 2), "a")},
            "ports": ports,
            "prefixes": {"b2": ["203.0.112.0/20"]},
            "applications": applications,
            "policy": policy,
        }
    )
    assert not list(check(made))
    return made


def addresses(*texts: str) -> tuple[IPv4Address, ...]:
    return tuple(map(IPv4Address, texts))


VOICE = {"voice": {"names": ["pbx.acme.example"], "protocol": "udp"}}
FOUND = {"pbx.acme.example": addresses("10.2.0.9", "198.51.100.7", "203.0.113.5")}


def rules(made: Network) -> dict[str, tuple[str | None, str | None, str]]:
    return {
        name: (
            str(rule.source) if rule.source else None,
            str(rule.destination) if rule.destination else None,
            rule.type.value,
        )
        for name, rule in policy_classes(made).items()
    }


def test_addresses_behind_branches_become_rules() -> None:
    made = with_addresses(network(VOICE, {"I": {"applications": ["voice"]}}), FOUND)
    assert rules(made) == {
        "voice-0-to": (None, "10.2.0.9/32", "I"),
        "voice-0-from": ("10.2.0.9/32", None, "I"),
        "voice-1-to": (None, "203.0.113.5/32", "I"),
        "voice-1-from": ("203.0.113.5/32", None, "I"),
    }


def test_a_name_without_addresses_matches_nothing_rather_than_everything() -> None:
    made = network(VOICE, {"I": {"applications": ["voice"]}})
    assert policy_classes(made) == {}
    assert with_addresses(made, {}) is made


def test_an_answer_sends_nothing_between_lans_to_the_internet() -> None:
    made = network(VOICE, {"III": {"applications": ["voice"]}})
    assert used_addresses(made, FOUND) == {
        "voice": {"pbx.acme.example": addresses("203.0.113.5")},
    }


def test_an_application_of_no_class_needs_no_addresses() -> None:
    assert used_addresses(network(VOICE, {}), FOUND) == {}


def test_addresses_that_are_given_too_are_matched_once() -> None:
    both = {"voice": VOICE["voice"] | {"addresses": ["10.2.0.9/32"]}}
    made = with_addresses(network(both, {"I": {"applications": ["voice"]}}), FOUND)
    found = [destination for _, destination, _ in rules(made).values() if destination]
    assert found == ["10.2.0.9/32", "203.0.113.5/32"]


@pytest.mark.parametrize("names", [1, 9, 100])
def test_each_name_gets_some_of_the_rules(names: int) -> None:
    described = {"voice": {"names": [f"n{n}.example.org" for n in range(names)]}}
    found = {
        f"n{n}.example.org": addresses(
            *(f"203.0.{112 + n // 16}.{16 * (n % 16) + k}" for k in range(16))
        )
        for n in range(names)
    }
    made = network(described, {"I": {"applications": ["voice"]}})
    used = used_addresses(made, found)["voice"]
    assert len(used) == names
    assert sum(map(len, used.values())) == min(MAX_ADDRESSES * names, RULES // 2)
    assert len(policy_classes(with_addresses(made, found))) <= RULES


@given(
    st.dictionaries(
        st.sampled_from(["a.example", "b.example", "c.example"]),
        st.lists(st.ip_addresses(v=4, network="203.0.112.0/20"), max_size=40),
    ),
    st.integers(0, 127),
)
def test_any_answers_fit(found: dict[str, list[IPv4Address]], given_ones: int) -> None:
    static = [f"10.2.0.{n}/32" for n in range(given_ones)]
    described = {
        "one": {"names": ["a.example", "b.example"], "addresses": static},
        "two": {"names": ["c.example"]},
    }
    made = network(described, {"I": {"applications": ["one"]}, "II": {"applications": ["two"]}})
    filled = with_addresses(made, found)
    assert len(policy_classes(filled)) <= RULES
    for rule in policy_classes(filled).values():
        assert rule.source is not None or rule.destination is not None
