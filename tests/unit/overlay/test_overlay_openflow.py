"""Entries as OpenFlow matches and actions: the worked example, and what holds for all of them."""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import worked_example
from hawser.overlay.config.openflow import ControllerConfig, OpenFlowSwitch, mac, mark
from hawser.overlay.sdwan.flow import Flow, flows
from worked_example import AGENT, address, entries, label, wide_entries

WAN_A, WAN_B, AGENT_A, AGENT_B = 1, 2, 1001, 1002
OUT_A, OUT_B = 501, 502


def switch(number: int, **update: object) -> OpenFlowSwitch:
    """A gateway of the worked example."""
    example = worked_example.switch(number)
    return OpenFlowSwitch.model_validate(example | {"socket": "of"} | update)


def entry_flows(number: int, name: str) -> dict[str, Flow]:
    """The flows of an entry by protocol."""
    found = [flow for flow in flows(switch(number)) if flow.counter == name]
    return {"tcp" if flow.match["ip_proto"] == 6 else "udp": flow for flow in found}


def test_source_of_subflow_1() -> None:
    flow = entry_flows(1, "m1 forward")["tcp"]
    assert flow.match == {
        "in_port": AGENT_A,
        "eth_type": 0x0800,
        "ip_proto": 6,
        "ipv4_src": address("1a"),
        "ipv4_dst": address("2a"),
        "tcp_dst": 0x2004,
    }
    assert flow.write == (
        ("eth_src", "02:00:c6:12:01:02"),
        ("eth_dst", "02:00:c6:12:01:01"),
        ("ipv4_src", address("1a")),
        ("ipv4_dst", address("3a")),
        ("tcp_dst", 0x2114),
    )
    assert (flow.output, flow.decrement) == (OUT_A, False)


def test_source_of_the_direct_subflow_4_leaves_by_the_second_port() -> None:
    flow = entry_flows(1, "m4 forward")["tcp"]
    assert (flow.match["in_port"], flow.output) == (AGENT_B, OUT_B)
    assert dict(flow.write)["ipv4_src"] == address("1b")
    assert dict(flow.write)["tcp_dst"] == 0x2144


def test_transit_of_subflow_1_goes_out_by_where_it_came_in() -> None:
    flow = entry_flows(3, "m1 forward")["tcp"]
    assert (flow.match["in_port"], flow.output) == (WAN_A, OUT_A)
    assert (flow.match["ipv4_src"], flow.match["ipv4_dst"]) == (address("1a"), address("3a"))
    assert (flow.match["tcp_dst"], dict(flow.write)["tcp_dst"]) == (0x2114, 0x2114)
    assert dict(flow.write)["ipv4_dst"] == address("2a")
    assert flow.decrement


def test_transit_of_subflow_2_goes_out_by_the_other_port() -> None:
    flow = entry_flows(4, "m2 forward")["tcp"]
    assert (flow.match["in_port"], flow.output) == (WAN_A, OUT_B)
    assert dict(flow.write)["eth_dst"] == mac(IPv4Address(address("4b", 1)))


def test_destination_of_subflow_1_restores_what_the_agent_wrote() -> None:
    flow = entry_flows(2, "m1 forward")["tcp"]
    assert (flow.match["ipv4_src"], flow.match["tcp_dst"]) == (address("3a"), 0x2114)
    assert flow.write[2:] == (
        ("ipv4_src", address("1a")),
        ("ipv4_dst", address("2a")),
        ("tcp_dst", AGENT),
    )
    assert (flow.output, flow.decrement) == (AGENT_A, False)


def test_the_way_back_has_its_label_in_the_source_port() -> None:
    source, transit = entry_flows(2, "m1 return")["udp"], entry_flows(3, "m1 return")["udp"]
    assert (source.match["udp_src"], dict(source.write)["udp_src"]) == (AGENT, label(1))
    assert (transit.match["ipv4_src"], transit.match["udp_src"]) == (address("2a"), label(1))
    assert dict(transit.write)["ipv4_dst"] == address("1a")


def test_udp_is_like_tcp() -> None:
    for name in ("m1 forward", "m3 return"):
        tcp, udp = entry_flows(1, name)["tcp"], entry_flows(1, name)["udp"]
        assert [v for _, v in tcp.write] == [v for _, v in udp.write]
        assert tcp.output == udp.output


def wide(number: int) -> OpenFlowSwitch:
    return switch(number, entries=wide_entries(number))


def test_a_wide_label_is_both_ports_of_udp_and_stays() -> None:
    (flow,) = (flow for flow in flows(wide(3)) if flow.counter == "m1 return")
    assert (flow.match["ip_proto"], flow.match["udp_src"], flow.match["udp_dst"]) == (
        17,
        0x1084,
        0x1041,
    )
    assert [name for name, _ in flow.write] == ["eth_src", "eth_dst", "ipv4_src", "ipv4_dst"]
    with pytest.raises(ValidationError, match="expected none, for a wide label stays"):
        switch(3, entries=[entry | {"write": entries(3)[0]["write"]} for entry in wide_entries(3)])


def test_wide_labels_that_no_entry_knows_go_nowhere() -> None:
    table = flows(wide(3))
    packet: Packet = {
        "in_port": WAN_A,
        "eth_dst": mac(IPv4Address(address("3a"))),
        "eth_type": 0x0800,
        "ip_frag": 0,
        "ip_proto": 17,
        "ipv4_src": address("1a"),
        "ipv4_dst": address("3a"),
        "udp_src": 0x1041,
        "udp_dst": 0x1084,
    }
    assert carried(table, packet).counter == "m1 forward"
    assert carried(table, {**packet, "udp_src": 0x1042}).counter == "no_entry"
    assert carried(table, {**packet, "udp_dst": 0x10C4}).counter == "no_entry"
    assert carried(table, {**packet, "udp_dst": 4000}).counter == "own"


def test_a_class_marks_the_sender() -> None:
    marked = [e | {"output": {"port": "a", "class": 0x10011}} for e in entries(1)[:1]]
    written = [dict(flow.write) for flow in flows(switch(1, entries=marked)) if flow.write]
    assert [each["eth_src"] for each in written] == ["02:11:c6:12:01:02"] * 2


def test_cookies_follow_what_flows_do_and_not_how_they_are_called() -> None:
    before = {flow.cookie for flow in flows(switch(1))}
    renamed = [e | {"name": f"x{number}"} for number, e in enumerate(entries(1))]
    assert {flow.cookie for flow in flows(switch(1, entries=renamed))} == before
    changed = [e | {"write": {**e["write"], "port": 0x2115}} for e in entries(1)[:1]]
    after = {flow.cookie for flow in flows(switch(1, entries=[*changed, *entries(1)[1:]]))}
    assert len(after - before) == len(before - after) == 2


@pytest.mark.parametrize("number", range(1, 6))
def test_no_two_flows_are_for_the_same_packets(number: int) -> None:
    table = flows(switch(number))
    keys = {(f.table, f.priority, frozenset(f.match.items())) for f in table}
    assert len(keys) == len({f.cookie for f in table}) == len(table)


def test_marks() -> None:
    assert [mark(c) for c in (None, 0x10001, 0x100FF)] == [0, 1, 0xFF]
    for wrong in (0x10000, 0x10100):
        with pytest.raises(ValueError, match="expected 1 to 0xff"):
            mark(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": {"port": "c", "class": None}}, "found port 'c'"),
        ({"output": "agent"}, "no address of the agent"),
        ({"output": {"port": "a", "class": 0x10200}}, "minor number 0x200"),
        (
            {"match": {"from": "agent", "source": "9.9.9.9", "destination": "1.1.1.1"}},
            "both of a wide",
        ),
        (
            {
                "match": {
                    "from": "agent",
                    "source": "9.9.9.9",
                    "destination": "1.1.1.1",
                    "source_port": 5,
                }
            },
            "own address",
        ),
    ],
)
def test_wrong_entries_are_refused_with_their_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        switch(1, entries=[entries(1)[0] | change])


def test_two_entries_for_the_same_packets_are_refused() -> None:
    first = entries(1)[0]
    with pytest.raises(ValidationError, match="same packets as entry m1 forward"):
        switch(1, entries=[first, first | {"name": "other"}])


def test_the_schema_is_that_of_the_model() -> None:
    file = Path(__file__).parents[3] / "schemas" / "openflow-config.schema.json"
    assert json.loads(file.read_text()) == ControllerConfig.model_json_schema()


Packet = dict[str, int | str]

ADDRESSES = [address(f"{n}{p}", h) for n in range(1, 6) for p in "ab" for h in (1, 2)]
PORTS = [AGENT, 1234, 5201, 0x3004, *map(label, range(1, 6))]


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    """TCP, UDP or ICMP at any port of a switch, with addresses and labels of the example."""
    number = draw(st.sampled_from([1, 6, 17]))
    packet: Packet = {
        "in_port": draw(st.sampled_from([WAN_A, WAN_B, AGENT_A, AGENT_B])),
        "eth_dst": draw(st.sampled_from([mac(IPv4Address(a)) for a in ADDRESSES])),
        "eth_type": 0x0800,
        "ip_frag": draw(st.sampled_from([0, 0, 0, 1])),
        "ip_proto": number,
        "ipv4_src": draw(st.sampled_from(ADDRESSES)),
        "ipv4_dst": draw(st.sampled_from(ADDRESSES)),
    }
    if number == 1:
        packet["icmpv4_type"] = draw(st.sampled_from([0, 3, 8, 11, 12]))
    else:
        protocol = "tcp" if number == 6 else "udp"
        packet[f"{protocol}_src"] = draw(st.sampled_from(PORTS))
        packet[f"{protocol}_dst"] = draw(st.sampled_from(PORTS))
    return packet


def takes(flow: Flow, packet: Packet) -> bool:
    """Whether a flow matches, as OpenFlow 1.3.5 section 5.3 says."""
    for name, wanted in flow.match.items():
        found = packet.get(name.removesuffix("_nxm"))
        if isinstance(wanted, tuple):
            if not isinstance(found, int) or found & wanted[1] != wanted[0]:
                return False
        elif found != wanted:
            return False
    return True


def carried(table: tuple[Flow, ...], packet: Packet) -> Flow:
    """The flow that decides about a packet."""
    number: int | None = 0
    while number is not None:
        here = [flow for flow in table if flow.table == number and takes(flow, packet)]
        found = max(here, key=lambda flow: flow.priority)
        assert sum(flow.priority == found.priority for flow in here) == 1
        number = found.goto
    return found


TABLES = {number: flows(switch(number)) for number in range(1, 6)}


@given(packet=packets(), number=st.integers(1, 5))
def test_never_an_open_relay(packet: Packet, number: int) -> None:
    """What is no entry's goes between stack and WAN, with an own address, or nowhere."""
    flow = carried(TABLES[number], packet)
    own = {address(f"{number}{p}") for p in "ab"}
    came_from_wan = packet["in_port"] in (WAN_A, WAN_B)
    if packet["ip_frag"]:
        assert (flow.kind, flow.counter) == ("drop", "fragment")
    elif flow.kind == "entry":
        assert flow.match.keys() >= {"in_port", "ip_proto", "ipv4_src", "ipv4_dst"}
        assert all(packet[name] == value for name, value in flow.match.items())
    elif flow.output is not None:
        assert (flow.output > 1000) is came_from_wan
        assert flow.report == (came_from_wan and packet.get("icmpv4_type") in (3, 11, 12))
        assert packet["ipv4_dst" if came_from_wan else "ipv4_src"] in own
    else:
        assert flow.kind == "drop"
