"""Changes as bytes, against the messages that os-ken makes of the same flows."""

from __future__ import annotations

import struct

import pytest
from os_ken.ofproto import ofproto_v1_3, ofproto_v1_3_parser

from hawser.openflow import wire
from hawser.overlay.config.openflow import OpenFlowSwitch
from hawser.overlay.sdwan.flow import Flow, flows
from worked_example import switch

BUNDLE, FLAGS = 1, 3


class Datapath:
    """What os-ken's messages need of a connection."""

    ofproto = ofproto_v1_3
    ofproto_parser = ofproto_v1_3_parser


def table(branch: int) -> tuple[Flow, ...]:
    return flows(OpenFlowSwitch.model_validate(switch(branch) | {"socket": "of"}))


def bundled(change: object) -> bytes:
    message = ofproto_v1_3_parser.ONFBundleAddMsg(Datapath, BUNDLE, FLAGS, change, [])
    message.set_xid(0)
    message.serialize()
    return bytes(message.buf)


def theirs(flow: Flow) -> bytes:
    parser, ofp = ofproto_v1_3_parser, ofproto_v1_3
    actions = [parser.OFPActionSetField(**{field: value}) for field, value in flow.write]
    actions += [parser.OFPActionDecNwTtl()] if flow.decrement else []
    actions += [parser.OFPActionOutput(flow.output)]
    actions += [parser.OFPActionOutput(ofp.OFPP_CONTROLLER)] if flow.report else []
    instructions = {
        "goto": [parser.OFPInstructionGotoTable(flow.goto)],
        "output": [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)],
        "drop": [],
    }
    kind = "goto" if flow.goto is not None else "drop" if flow.output is None else "output"
    return bundled(
        parser.OFPFlowMod(
            Datapath,
            cookie=flow.cookie,
            table_id=flow.table,
            command=ofp.OFPFC_ADD,
            priority=flow.priority,
            match=parser.OFPMatch(**flow.match),
            instructions=instructions[kind],
        )
    )


@pytest.mark.parametrize("branch", [1, 2, 3])
def test_every_flow_is_as_os_ken_writes_it(branch: int) -> None:
    all_flows = table(branch)
    assert {flow.kind for flow in all_flows} == {"entry", "drop", "own"}
    for flow in all_flows:
        assert wire.addition(flow, BUNDLE, FLAGS) == theirs(flow), flow


def test_a_removal_is_as_os_ken_writes_it() -> None:
    ofp, cookie = ofproto_v1_3, 0x0102_0304_0506_0708
    change = ofproto_v1_3_parser.OFPFlowMod(
        Datapath,
        cookie=cookie,
        cookie_mask=2**64 - 1,
        table_id=ofp.OFPTT_ALL,
        command=ofp.OFPFC_DELETE,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
    )
    assert wire.removal(cookie, BUNDLE, FLAGS) == bundled(change)


def test_counters_are_read_as_os_ken_reads_them() -> None:
    match = bytearray()
    length = 48 + ofproto_v1_3_parser.OFPMatch(in_port=1, eth_type=0x800).serialize(match, 0)
    times = struct.pack("!HBxII", length, 1, 2, 3)
    head = times + struct.pack("!HHHH4xQQQ", 4, 5, 6, 7, 2**63 - 1, 8, 9)
    reply = bytes(16) + head + bytes(match)
    ours = wire.FlowCounts.parser(reply, 16)
    theirs = ofproto_v1_3_parser.OFPFlowStats.parser(reply, 16)
    for name in ("length", "cookie", "packet_count", "byte_count"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (ours.length, ours.byte_count) == (length, 9)


def test_a_flow_that_says_it_is_empty_does_not_stop_the_reader() -> None:
    assert wire.FlowCounts.parser(bytes(56), 0).length == 56
    with pytest.raises(struct.error):
        wire.FlowCounts.parser(bytes(20), 0)
