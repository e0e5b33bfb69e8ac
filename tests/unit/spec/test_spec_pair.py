"""Pairs of gateways: what is refused, and how others reach both."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from hawser.controller.policy.configuration import Computer
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.overlay.sdwan.staged import staged
from hawser.overlay.sdwan.switch import flow_entries
from hawser.spec.check.network import network as check
from hawser.spec.network import Network
from lab.controller.branches import branches

SECOND = {
    f"b{n}": {
        "gateway": f"gw{n}b",
        "wan": ["a", "b"],
        "lan": "lan0",
        "address": f"10.{n}.0.2",
    }
    for n in (1, 2)
}

GROUP = {"paths": ["b1.a>b2.a"]}
MANY = [f"g{n}" for n in range(27)]


def network(pairs: Any = SECOND, **more: Any) -> Network:  # noqa: ANN401 (JSON)
    names = ["gw1", "gw2", "gw3", *(each["gateway"] for each in pairs.values())]
    ports = {
        f"{name}.{port}": {"address": f"192.0.2.{at + 2}", "next_hop": f"192.0.2.{at + 1}"}
        for number, name in enumerate(dict.fromkeys(names))
        for at, port in ((16 * number, "a"), (16 * number + 4, "b"))
    }
    overlay = {"transport": "quic", "switch": "bpf", "branches": branches((1, 2, 3), "a", "b")}
    overlay |= more.pop("overlay", {})
    described = {"name": "acme", "overlay": overlay, "ports": ports, "pairs": pairs}
    return Network.model_validate(described | more)


def test_both_gateways_are_reached_and_share_no_group() -> None:
    found = network()
    assert not list(check(found))
    made = configurations(fabric_of(found))
    assert set(made) == {"b1", "b1/2", "b2", "b2/2", "b3"}
    second = made["b1/2"]
    assert (second.branch, second.id, str(second.source)) == ("b1", 1, "10.1.0.2")
    assert second.local == made["b1"].local
    for config in made.values():
        assert {peer.branch for peer in config.peers} == {"b1", "b2", "b3"} - {config.branch}
    (peer,) = (peer for peer in made["b3"].peers if peer.branch == "b1")
    assert [group.id for group in peer.groups] == [0, 58]
    assert [len(group.paths) for group in peer.groups] == [4, 4]
    numbers = [
        {group.id for peer in made[name].peers if peer.branch == "b2" for group in peer.groups}
        for name in ("b1", "b1/2")
    ]
    assert numbers == [{0, 60}, {58, 62}]


def test_with_5_bits_there_are_fewer_numbers() -> None:
    computer = Computer()
    computer.desired(network(), 1, ())
    found = computer.desired(network(overlay={"label_bits": 5}), 2, ())
    peers = json.loads(found["b1/2"].document)["peers"]
    assert {each["branch"]: [group["id"] for group in each["groups"]] for each in peers} == {
        "b2": [26, 30],
        "b3": [26],
    }


def test_both_ends_of_a_group_agree() -> None:
    made = configurations(fabric_of(network()))
    ends: dict[tuple[str, ...], set[frozenset[tuple[str, str]]]] = {}
    for config in made.values():
        for peer in config.peers:
            for group in peer.groups:
                paths = frozenset(
                    tuple(sorted((str(path.local), str(path.remote)))) for path in group.paths
                )
                pair = (*sorted((config.branch, peer.branch)), str(group.id))
                ends.setdefault(pair, set()).add(paths)  # type: ignore[arg-type]
    assert len(ends) == 4 + 2 + 2
    assert all(len(each) == 1 for each in ends.values())
    assert all(one.isdisjoint(other) for one, other in combinations(_all(ends), 2))


def _all(ends: Any) -> list[frozenset[tuple[str, str]]]:  # noqa: ANN401
    return [paths for each in ends.values() for paths in each]


def test_no_two_entries_of_a_switch_match_the_same() -> None:
    for entries in flow_entries(fabric_of(network())).values():
        assert len({each.match for each in entries}) == len(entries)


def test_a_second_gateway_changes_nothing_between_others() -> None:
    computer = Computer()
    before = computer.desired(network({}), 1, ())
    after = computer.desired(network({"b1": SECOND["b1"]}), 2, ())
    assert before["b1"].digest == after["b1"].digest
    assert before["b2"].digest != after["b2"].digest
    assert "b1/2" not in before
    assert computer.desired(network({}), 3, ())["b2"].digest == before["b2"].digest


def test_access_is_that_of_the_branch() -> None:
    made = configurations(fabric_of(network(overlay={"access": {"b1": ["b2"]}})))
    assert {peer.branch for peer in made["b1/2"].peers} == {"b2"}
    assert [str(each) for each in made["b1/2"].prohibited] == ["10.3.0.0/24"]
    assert {peer.branch for peer in made["b3"].peers} == {"b2"}
    hubs = configurations(fabric_of(network(overlay={"hubs": ["b1"]})))
    assert {peer.branch for peer in hubs["b2/2"].peers} == {"b1"}
    assert [len(peer.groups) for peer in hubs["b2/2"].peers] == [2]


def test_both_gateways_move_together_in_a_roll_out() -> None:
    old, new = fabric_of(network()), fabric_of(network(mtu=1400))
    some = staged(old, new, {"b1"})
    assert some.branches["b1/2"] == new.branches["b1/2"]
    assert len(some.groups) == len(new.groups)
    moved = Computer().desired_in_stages((network(), 1), (network(mtu=1400), 2), {"b1"}, ())
    assert {name for name, each in moved.items() if each.version == 2} == {"b1", "b1/2"}


@pytest.mark.parametrize(
    ("pairs", "more", "field", "message"),
    [
        ({"b9": SECOND["b1"]}, {}, "pairs.b9", "no branch"),
        ({"b1": SECOND["b1"] | {"gateway": "gw2"}}, {}, "pairs.b1.gateway", "gateway of branch b2"),
        ({"b1": SECOND["b1"] | {"wan": ["c"]}}, {}, "pairs.b1.wan.0", "in ports"),
        ({"b1": SECOND["b1"] | {"lan": "a"}}, {}, "pairs.b1.lan", "a WAN port of gw1b too"),
        ({"b1": SECOND["b1"] | {"address": "10.2.0.2"}}, {}, "pairs.b1.address", "in 10.1.0.0/24"),
        ({"b1": SECOND["b1"] | {"address": "10.1.0.1"}}, {}, "pairs.b1.address", "other than"),
        (SECOND, {"overlay": {"tcp_proxy": {"II": "tcp"}}}, "pairs", "no overlay.tcp_proxy"),
        (SECOND, {"overlay": {"paths": "automatic"}}, "pairs", "paths: manual"),
        (
            SECOND,
            {"policy": {"II": {"sla": {"delay": "50 ms"}}}},
            "policy.II",
            "neither beside pairs",
        ),
        (
            SECOND,
            {"overlay": {"path_groups": {"g": {"id": 58, "paths": ["b1.a>b2.a"]}}}},
            "overlay.path_groups.g.id",
            "less than 58",
        ),
        (
            SECOND,
            {"overlay": {"label_bits": 5, "path_groups": dict.fromkeys(MANY, GROUP)}},
            "overlay.path_groups.g26",
            "found the number 26, expected less than 26",
        ),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(
    pairs: Any,  # noqa: ANN401 (JSON)
    more: Any,  # noqa: ANN401
    field: str,
    message: str,
) -> None:
    found = {".".join(map(str, each.loc)): each.message for each in check(network(pairs, **more))}
    assert message in found[field]
