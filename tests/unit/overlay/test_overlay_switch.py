"""Flow entries: the worked example of 004 section III.D, Table II, and what holds of every plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlay_text import emitted
from spec_files import loaded, mistakes
from switched import Network, Packet, file

from hawser.overlay.config.entry import Entry
from hawser.overlay.config.shaping import class_id
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import ShaperPlan
from hawser.overlay.sdwan.group import Path
from hawser.overlay.sdwan.label import agent_port, label, wide_label
from hawser.spec.port import Port
from hawser.spec.workflow import Scenario

EPHEMERAL = range(1024, 4096)
"""Ports that the kernel of a gateway with a switch chooses (see `overlay.sysctl`)."""

ENDS = ("source", "destination")

FIVE = dict.fromkeys(range(1, 6), "ab")

EXAMPLE = ["b1.a>b3.a>b3.a>b2.a", "b1.b>b4.a>b4.b>b2.a", "b1.a>b5.a>b5.a>b2.b", "b1.b>b2.b"]
"""Subflows 1 to 4 of 004 section III.D; its WAN ports 1 and 2 are a and b here."""

TABLE_II = [
    ["b1.a>b2.a", "b1.b>b3.b>b3.a>b2.a", "b1.b>b4.a>b4.b>b2.b", "b1.a>b5.a>b5.b>b2.b"],
    ["b1.a>b2.b", "b1.b>b3.a>b3.b>b2.b", "b1.b>b4.b>b4.a>b2.a", "b1.a>b5.b>b5.a>b2.a"],
    ["b1.b>b2.a", "b1.a>b3.a>b3.b>b2.a", "b1.a>b4.b>b4.a>b2.b", "b1.b>b5.b>b5.a>b2.b"],
    ["b1.b>b2.b", "b1.a>b3.b>b3.a>b2.a", "b1.a>b4.a>b4.b>b2.a", "b1.b>b5.a>b5.b>b2.a"],
]


def scenario(document: dict[str, Any]) -> Scenario:
    return loaded(json.dumps(document)).variants[0].scenario


class TestWorkedExample:
    """004 section III.D, entry by entry: branch 1 to branch 2 by path group 4."""

    document = file(FIVE, [EXAMPLE])
    document["overlay"]["path_groups"]["pg0"]["id"] = 4
    net = Network(loaded(json.dumps(document)).variants[0].scenario)

    def line(self, gateway: str, name: str) -> str:
        """One entry as the document writes it: match, action."""
        (entry,) = (e for e in self.net.entries[gateway] if e.name == f"b1>b2 g4 {name}")
        return shown(self.net, entry)

    @pytest.mark.parametrize(
        ("gateway", "name", "wanted"),
        [
            ("gw1", "m1 forward source", "p11 p21 0x2004 -> p11 p31 0x2114 port a"),
            ("gw3", "m1 forward transit", "p11 p31 0x2114 -> p31 p21 0x2114 port a"),
            ("gw2", "m1 forward destination", "p31 p21 0x2114 -> p11 p21 0x2004 agent"),
            ("gw1", "m2 forward source", "p11 p22 0x2004 -> p12 p41 0x2124 port b"),
            ("gw4", "m2 forward transit", "p12 p41 0x2124 -> p42 p21 0x2124 port b"),
            ("gw2", "m2 forward destination", "p42 p21 0x2124 -> p11 p22 0x2004 agent"),
            ("gw1", "m3 forward source", "p12 p21 0x2004 -> p11 p51 0x2134 port a"),
            ("gw5", "m3 forward transit", "p11 p51 0x2134 -> p51 p22 0x2134 port a"),
            ("gw2", "m3 forward destination", "p51 p22 0x2134 -> p12 p21 0x2004 agent"),
            ("gw1", "m4 forward source", "p12 p22 0x2004 -> p12 p22 0x2144 port b"),
            ("gw2", "m4 forward destination", "p12 p22 0x2144 -> p12 p22 0x2004 agent"),
            # The way back, with the label in the source port.
            ("gw2", "m1 return source", "p21 p11 0x2004 -> p21 p31 0x2114 port a"),
            ("gw3", "m1 return transit", "p21 p31 0x2114 -> p31 p11 0x2114 port a"),
            ("gw1", "m1 return destination", "p31 p11 0x2114 -> p21 p11 0x2004 agent"),
            ("gw2", "m2 return source", "p22 p11 0x2004 -> p21 p42 0x2124 port a"),
            ("gw4", "m2 return transit", "p21 p42 0x2124 -> p41 p12 0x2124 port a"),
            ("gw1", "m2 return destination", "p41 p12 0x2124 -> p22 p11 0x2004 agent"),
            ("gw2", "m4 return source", "p22 p12 0x2004 -> p22 p12 0x2144 port b"),
            ("gw1", "m4 return destination", "p22 p12 0x2144 -> p22 p12 0x2004 agent"),
        ],
    )
    def test_entry(self, gateway: str, name: str, wanted: str) -> None:
        assert self.line(gateway, name) == wanted

    def test_there_is_no_entry_more(self) -> None:
        found = [e for entries in self.net.entries.values() for e in entries]
        mine = [e for e in found if e.name.startswith("b1>b2 ")]
        assert len(mine) == 2 * (3 * 3 + 2)

    def test_forward_matches_the_destination_port_and_return_the_source_port(self) -> None:
        for entries in self.net.entries.values():
            for entry in entries:
                match = entry.match
                given = match.destination_port if " forward " in entry.name else match.source_port
                assert given is not None
                assert None in (match.source_port, match.destination_port)


def shown(net: Network, entry: Entry) -> str:
    """Write an entry with the ports' names: p12 is the second port of branch 1."""
    names = {
        str(each.ip): f"p{port[2:].split('.')[0]}{'ab'.index(port[-1]) + 1}"
        for port, access in net.addresses.wan.items()
        for each in access.addresses
    }
    match, write = entry.match, entry.write
    port = match.destination_port or match.source_port
    out = "agent" if entry.output == "agent" else f"port {entry.output.port}"
    ends = [
        names[str(a)] for a in (match.source, match.destination, write.source, write.destination)
    ]
    return f"{ends[0]} {ends[1]} {port:#06x} -> {ends[2]} {ends[3]} {write.port:#06x} {out}"


class TestTableII:
    scenario = scenario(file(FIVE, TABLE_II, placement="round_robin"))
    net = Network(scenario)
    plan = network(scenario)

    def test_the_agents_listen_on_a_port_a_group(self) -> None:
        config: Any = next(emitted(d) for d in self.plan.daemons if d.node == "gw1")
        towards = {peer["branch"]: peer["groups"] for peer in config["peers"]}
        assert [group["id"] for group in towards["b2"]] == [0, 1, 2, 3]
        assert [len(group["paths"]) for group in towards["b2"]] == [4] * 4
        assert [group["id"] for group in towards["b3"]] == [0]
        assert config["placement"] == "round_robin"

    def test_every_path_is_as_written(self) -> None:
        for number, group in enumerate(TABLE_II):
            for member, route in enumerate(group, 1):
                passed, _ = follow(self.net, self.scenario, "b1", "b2", number, member)
                assert ">".join(passed).replace("gw", "b") == route

    def test_the_most_urgent_goes_first_and_then_the_fewest_hops(self) -> None:
        shaper = upload(self.plan.shapers, "gw1.b")
        assert [(c.name.rpartition(":")[2], c.priority, c.marked) for c in shaper.classes] == [
            ("I", 0, True),
            ("II-1", 1, True),
            ("II-2", 2, True),
            ("III", 3, False),
        ]
        classes = {e.name: e.output.class_ for e in out_of(self.net, "gw1")}
        assert classes["b1>b2 g0 m1 forward source"] == class_id(1)
        assert classes["b1>b2 g0 m2 forward source"] == class_id(2)

    def test_all_of_a_switch_is_in_the_configuration(self) -> None:
        config: Any = next(emitted(d) for d in self.plan.daemons if d.node == "gw3")
        switch = config["switch"]
        assert switch["kind"] == "bpf"
        assert switch["ports"][0] == {
            "name": "a",
            "interface": "a",
            "address": "198.18.0.34",
            "next_hop": "198.18.0.33",
            "type": "internet",
        }
        entry = next(e for e in switch["entries"] if e["name"] == "b1>b2 g0 m2 forward transit")
        assert entry == {
            "name": "b1>b2 g0 m2 forward transit",
            "match": {
                "from": "wan",
                "source": "198.18.0.10",
                "destination": "198.18.0.42",
                "source_port": None,
                "destination_port": 0x2120,
            },
            "write": {"source": "198.18.0.34", "destination": "198.18.0.18", "port": 0x2120},
            "output": {"port": "a", "class": class_id(2)},
        }

    def test_a_port_that_the_kernel_chooses_is_no_label(self) -> None:
        gateway = next(node for node in self.plan.nodes if node.name == "gw1")
        assert gateway.sysctl["net.ipv4.ip_local_port_range"] == "1024 4095"
        assert all(label(d, s, m, g) >= 4096 for d, s, m, g in product((1,), (1,), (1, 16), (0,)))


def upload(shapers: tuple[ShaperPlan, ...], port: str) -> ShaperPlan:
    return next(each for each in shapers if each.name == f"port:{port}:forward")


def out_of(net: Network, gateway: str) -> Iterator[Any]:
    return (e for e in net.entries[gateway] if e.output != "agent")


def test_without_priority_all_of_type_two_is_alike() -> None:
    found = scenario(file(FIVE, TABLE_II, priority="none"))
    names = [c.name.rpartition(":")[2] for c in upload(network(found).shapers, "gw2.a").classes]
    assert names == ["I", "II", "III"]
    classes = {e.output.class_ for e in out_of(Network(found), "gw1")}
    assert classes == {class_id(1)}


def test_a_group_of_class_one_goes_first() -> None:
    document = file({1: "a", 2: "a"}, [["b1.a>b2.a"], ["b1.a>b2.a"]], switch="bpf")
    document["overlay"]["path_groups"]["pg1"]["class"] = "I"
    found = scenario(document)
    classes = {e.name: e.output.class_ for e in out_of(Network(found), "gw1")}
    assert classes == {
        "b1>b2 g0 m1 forward source": class_id(1),
        "b1>b2 g1 m1 forward source": class_id(0),
    }
    config: Any = emitted(network(found).daemons[0])
    assert [g.get("class", "II") for g in config["peers"][0]["groups"]] == ["II", "I"]


def test_leased_lines_carry_type_one_and_what_is_left() -> None:
    document = file({1: "ab", 2: "ab"})
    for port in ("gw1.b", "gw2.b"):
        document["topology"]["internet"]["ports"][port]["type"] = "leased"
    found = scenario(document)
    second, first = Network(found).fabric.groups
    assert (second.traffic, first.traffic) == ("II", "I")
    assert ways(second.paths) == ["a>a", "b>b", "a>a", "b>b"]
    assert ways(first.paths) == ["b>b"] * 4
    config: Any = emitted(network(found).daemons[0])
    assert [port["type"] for port in config["switch"]["ports"]] == ["internet", "leased"]


def ways(paths: tuple[Path, ...]) -> list[str]:
    return [">".join(stop.port for hop in path.hops for stop in hop) for path in paths]


def test_without_transit_there_is_no_switch() -> None:
    config: Any = emitted(network(scenario(file({1: "a", 2: "a"}))).daemons[0])
    assert "switch" not in config
    assert "placement" not in config


def test_rules_are_handed_to_the_classifier_in_order() -> None:
    rules = {
        "voice": {"dscp": 46, "type": "I"},
        "backup": {"protocol": "tcp", "destination_ports": [873, 873], "type": "II"},
    }
    config: Any = emitted(network(scenario(file({1: "a", 2: "a"}, classes=rules))).daemons[0])
    found = config["classifier"]
    assert (found["lan"], found["default"]) == ("lan", "II")
    assert [rule["name"] for rule in found["rules"]] == ["voice", "backup"]
    assert found["rules"][1]["destination_ports"] == [873, 873]


def follow(
    net: Network, found: Scenario, first: str, second: str, group: int, member: int
) -> tuple[list[str], list[str]]:
    """Send a packet there and its answer back: the ports passed. Addresses are restored."""
    assert found.overlay is not None
    branches = found.overlay.branches
    there = net.fabric.between(first, second)
    path = next(g for g in there if g.number == group).paths[member - 1]
    ports = EPHEMERAL[member], agent_port(branches[second].id, group)
    if found.overlay.transport == "quic":
        ends, bits = (branches[second].id, branches[first].id), found.overlay.label_bits
        ports = wide_label(*ends, member, group, bits=bits)
    sent = Packet(*path.agents, *ports)
    passed, got = net.send(branches[first].gateway, sent)
    assert got == sent
    answer = Packet(sent.destination, sent.source, sent.destination_port, sent.source_port)
    back, returned = net.send(branches[second].gateway, answer)
    assert returned == answer
    assert back == passed[::-1]
    return passed, back


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Branches with one to three ports and random path groups between some, of IPv4 or IPv6.

    With quic there may be more branches, and any number of paths.
    """
    transport = draw(st.sampled_from(["mptcp", "quic"]))
    bits = 6 if transport == "mptcp" else draw(st.sampled_from([5, 6]))
    most = 15 if transport == "mptcp" else {5: 1919, 6: 959}[bits]
    ids = draw(st.lists(st.integers(1, most), min_size=2, max_size=6, unique=True))
    wan = {i: "abc"[: draw(st.integers(1, 3))] for i in ids}
    found = []
    for first, second in combinations(ids, 2):
        for _ in range(draw(st.integers(0, 3))):
            one, other = draw(st.permutations((first, second)))
            number = len(wan[one]) * len(wan[other])
            if transport == "quic":
                number = draw(st.integers(1, 16))
            found.append([draw(routes(wan, one, other)) for _ in range(number)])
    document = file(wan, found, switch="bpf", transport=transport)
    document["overlay"]["label_bits"] = bits
    document["overlay"]["family"] = draw(st.sampled_from([4, 6]))
    return document


@st.composite
def routes(draw: st.DrawFn, wan: dict[int, str], first: int, second: int) -> str:
    others = [i for i in wan if i not in (first, second)]
    between = draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    stops = [first, *(i for transit in between for i in (transit, transit)), second]
    return ">".join(f"b{i}.{draw(st.sampled_from(wan[i]))}" for i in stops)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_packets_of_every_plan_arrive_as_they_were_sent(document: dict[str, Any]) -> None:
    found = scenario(document)
    assert found.overlay is not None
    net = Network(found)
    for group in net.fabric.groups:
        for member, path in enumerate(group.paths, 1):
            passed, _ = follow(net, found, *group.branches, group.number, member)
            branches = found.overlay.branches
            way = [Port(branches[s.branch].gateway, s.port) for hop in path.hops for s in hop]
            assert passed == way
            assert len(passed) == 2 * len(path.hops)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_no_two_entries_of_a_gateway_match_the_same(document: dict[str, Any]) -> None:
    net = Network(scenario(document))
    for entries in net.entries.values():
        matches = [entry.match.model_dump_json() for entry in entries]
        assert len(matches) == len(set(matches))
        names = [entry.name for entry in entries]
        assert len(names) == len(set(names))


def test_labels_are_as_published() -> None:
    assert [hex(label(2, 1, m, 4)) for m in (1, 4, 16)] == ["0x2114", "0x2144", "0x2104"]
    assert hex(agent_port(2, 4)) == "0x2004"
    every = {
        label(d, s, m, g) for d in (1, 15) for s in (2, 9) for m in range(1, 17) for g in (0, 7)
    }
    assert len(every) == 2 * 2 * 16 * 2
    assert agent_port(2, 4) not in {label(2, 0, m, 4) for m in range(1, 16)}


@pytest.mark.parametrize(
    ("bits", "parts", "ports"),
    [  # the same as in crates/wire/src/label/wide.rs
        (6, (2, 1, 1, 4), (0x1041, 0x1084)),
        (6, (2, 1, 64, 4), (0x1040, 0x1084)),
        (6, (959, 0, 63, 63), (0x103F, 0xFFFF)),
        (5, (2, 1, 1, 4), (0x1021, 0x1044)),
        (5, (2, 1, 32, 4), (0x1020, 0x1044)),
        (5, (960, 959, 16, 26), (0x87F0, 0x881A)),
        (5, (1919, 0, 31, 31), (0x101F, 0xFFFF)),
    ],
)
def test_wide_labels_are_both_ports(
    bits: int, parts: tuple[int, int, int, int], ports: tuple[int, int]
) -> None:
    assert wide_label(*parts, bits=bits) == ports


def test_the_entries_of_quic_write_addresses_alone() -> None:
    """The worked example, with both ports as the label from agent to agent."""
    document = file(FIVE, [EXAMPLE], transport="quic")
    document["overlay"]["path_groups"]["pg0"]["id"] = 40
    net = Network(scenario(document))
    ports = {"forward": (0x1041, 0x10A8), "return": (0x10A8, 0x1041)}
    for gateway, place in (("gw1", "source"), ("gw3", "transit"), ("gw2", "destination")):
        (entry,) = (e for e in net.entries[gateway] if e.name == f"b1>b2 g40 m1 forward {place}")
        assert (entry.match.source_port, entry.match.destination_port) == ports["forward"]
        assert entry.write.port is None
    assert {
        (e.match.source_port, e.match.destination_port)
        for e in net.entries["gw3"]
        if e.name.startswith("b1>b2 g40 m1 return")
    } == {ports["return"]}


def test_the_gateways_of_quic_take_a_path_where_it_begins_and_ends() -> None:
    """Not each pair of ports, as with mptcp; and direct ones only where no leased line is."""
    config: Any = emitted(network(scenario(file(FIVE, [EXAMPLE], transport="quic"))).daemons[0])
    (group,) = next(p for p in config["peers"] if p["branch"] == "b2")["groups"]
    one, two = ("198.18.0.2", "198.18.0.10"), ("198.18.0.18", "198.18.0.26")
    ends = [(one[0], two[0]), (one[1], two[0]), (one[0], two[1]), (one[1], two[1])]
    assert [(path["local"], path["remote"]) for path in group["paths"]] == ends
    assert config["switch"]["kind"] == "bpf"
    document = file({1: "ab", 2: "ab"}, transport="quic")
    for port in ("gw1.b", "gw2.b"):
        document["topology"]["internet"]["ports"][port]["type"] = "leased"
    found = scenario(document)
    second, first = Network(found).fabric.groups
    assert (ways(second.paths), ways(first.paths)) == (["a>a", "b>b"], ["b>b"])


@pytest.mark.parametrize(("bits", "last", "groups"), [(6, 959, 40), (5, 1919, 32)])
def test_quic_takes_more_branches_and_groups_than_mptcp(bits: int, last: int, groups: int) -> None:
    """20 branches, numbers up to the last, and many groups of 16 paths between two of them."""
    wan = dict.fromkeys((*range(19), last), "ab")
    between = [f"b{i}.a>b{i}.b" for i in range(1, 17)]
    paths = [[f"b0.a>{transit}>b{last}.a" for transit in between]] * groups
    document = file(wan, paths, transport="quic")
    document["overlay"]["label_bits"] = bits
    found = scenario(document)
    net = Network(found)
    for group, member in ((0, 1), (groups - 1, 16)):
        passed, _ = follow(net, found, "b0", f"b{last}", group, member)
        assert passed[1:3] == [f"gw{member}.a", f"gw{member}.b"]


@pytest.mark.parametrize("transport", ["mptcp", "quic"])
def test_with_family_6_entries_and_ports_have_ipv6_addresses(transport: str) -> None:
    document = file(FIVE, [EXAMPLE], transport=transport, family=6)
    configs: Any = [emitted(daemon) for daemon in network(scenario(document)).daemons]
    for config in configs:
        (first, *_) = config["switch"]["ports"]
        assert first["address"].startswith("198.18.0.")
        prefix = first["next_hop6"].removesuffix("1")
        assert (first["address6"], prefix[:5]) == (f"{prefix}2", "fd01:")
        for entry in config["switch"]["entries"]:
            ends = (entry[part][end] for part in ("match", "write") for end in ENDS)
            assert all(address.startswith("fd01:") for address in ends), entry
    four: Any = emitted(network(scenario(file(FIVE, [EXAMPLE]))).daemons[0])
    assert not {"address6", "next_hop6"} & four["switch"]["ports"][0].keys()


def test_paths_join_ports_of_the_same_version() -> None:
    document = file({1: "ab", 2: "ab", 3: "a"}, transport="quic", switch="bpf")
    for port in ("gw1.b", "gw2.b"):
        document["topology"]["internet"]["ports"][port]["family"] = 6
    assert mistakes(json.dumps(document)) == []
    configs: Any = [emitted(daemon) for daemon in network(scenario(document)).daemons]
    versions = [
        [ip_address(path["local"]).version for group in peer["groups"] for path in group["paths"]]
        for config in configs
        for peer in config["peers"]
    ]
    assert versions == [[4, 6], [4], [4, 6], [4], [4], [4]]
    ports = [port for config in configs for port in config["switch"]["ports"]]
    assert ["address6" in port for port in ports] == [False, True, False, True, False]


def test_an_entry_is_of_one_version() -> None:
    config: Any = emitted(network(scenario(file(FIVE, [EXAMPLE]))).daemons[0])
    entry = config["switch"]["entries"][0]
    assert Entry.model_validate(entry)
    for part, end in product(("match", "write"), ENDS):
        mixed = {**entry, part: {**entry[part], end: "fd01::2"}}
        with pytest.raises(ValueError, match="like the source"):
            Entry.model_validate(mixed)


def test_openflow_is_refused_with_family_6() -> None:
    (wrong,) = mistakes(json.dumps(file(FIVE, [EXAMPLE], switch="openflow", family=6)))
    assert "found openflow, whose flows match addresses of IPv4" in wrong
    for transport in ("mptcp", "quic"):
        fine = file(FIVE, [EXAMPLE], switch="bpf", family=6, transport=transport)
        assert mistakes(json.dumps(fine)) == []


def test_what_labels_have_no_room_for_is_refused() -> None:
    document = file(dict.fromkeys(range(20), "ab"), transport="quic")
    for transport, bits, number in (("quic", 6, 65), ("quic", 5, 33), ("mptcp", 6, 17)):
        over = file({1: "a", 2: "a"}, [["b1.a>b2.a"]] * number, transport=transport, switch="bpf")
        over["overlay"]["label_bits"] = bits
        (wrong,) = mistakes(json.dumps(over))
        assert f"one group more than the {number - 1}" in wrong
    document["overlay"]["transport"] = "mptcp"
    assert "found 20 branches, expected at most 16" in mistakes(json.dumps(document))[0]
    few = file({1: "a", 16: "a"})
    assert "found 16, expected 0 to 15: with the mptcp" in mistakes(json.dumps(few))[0]
    few["overlay"]["transport"] = "quic"
    assert mistakes(json.dumps(few)) == []


def test_as_much_as_labels_can_tell_apart() -> None:
    """16 branches, 16 groups a pair, 9 paths a group: every label once."""
    wan = dict.fromkeys(range(16), "abc")
    paths = [[f"b{i}.{x}>b{j}.{y}" for x in "abc" for y in "abc"] for i, j in combinations(wan, 2)]
    document = file(wan, [g for group in paths for g in [group] * 16], switch="bpf")
    net = Network(scenario(document))
    assert sum(map(len, net.entries.values())) == 120 * 16 * 9 * 4
    assert mistakes(json.dumps(file(wan, [paths[0]] * 17, switch="bpf"))) != []


def test_branch_0_has_no_sixteenth_member_path() -> None:
    """Its label would be the port on which the agent of the other branch listens."""
    assert mistakes(json.dumps(file({1: "abcd", 2: "abcd"}, [], switch="bpf"))) == []
    (found,) = mistakes(json.dumps(file({0: "abcd", 2: "abcd"}, [], switch="bpf")))
    assert "found 16 paths to branch b0, expected at most 15" in found
