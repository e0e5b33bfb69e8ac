"""Flows as OpenFlow 1.3 messages, by os-ken's parser."""

from __future__ import annotations

from typing import Any

from hawser.overlay.openflow import Flow

Datapath = Any
"""os-ken's `Datapath`; the library has no types."""
Message = Any

_BUNDLE = 1
"""Id of the only bundle that is open on a connection."""
_WHOLE_COOKIE = 0xFFFF_FFFF_FFFF_FFFF


def everything(datapath: Datapath) -> Message:
    """Ask for all flows of all tables with their counters (multipart, OpenFlow 1.3.5, 7.3.5.2)."""
    parser = datapath.ofproto_parser
    return parser.OFPFlowStatsRequest(datapath, table_id=datapath.ofproto.OFPTT_ALL)


def addition(datapath: Datapath, flow: Flow) -> Message:
    """Add a flow; one with the same table, priority and match is replaced."""
    parser = datapath.ofproto_parser
    return parser.OFPFlowMod(
        datapath,
        cookie=flow.cookie,
        table_id=flow.table,
        command=datapath.ofproto.OFPFC_ADD,
        priority=flow.priority,
        match=parser.OFPMatch(**flow.match),
        instructions=_instructions(datapath, flow),
    )


def removal(datapath: Datapath, cookie: int) -> Message:
    """Remove all flows with this cookie. Open vSwitch finds them by an index."""
    ofp = datapath.ofproto
    return datapath.ofproto_parser.OFPFlowMod(
        datapath,
        cookie=cookie,
        cookie_mask=_WHOLE_COOKIE,
        table_id=ofp.OFPTT_ALL,
        command=ofp.OFPFC_DELETE,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
    )


def bundle_open(datapath: Datapath) -> Message:
    """Begin a set of changes that become visible to packets at once (ONF EXT-230)."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_OPEN_REQUEST)


def bundle_close(datapath: Datapath) -> Message:
    """End the set. What is wrong with a change of it was answered before this is."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_CLOSE_REQUEST)


def bundle_commit(datapath: Datapath) -> Message:
    """Carry out the changes, all or none."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_COMMIT_REQUEST)


def bundled(datapath: Datapath, change: Message) -> Message:
    """Put a change into the open bundle. It is answered only when it is wrong."""
    flags = _flags(datapath)
    return datapath.ofproto_parser.ONFBundleAddMsg(datapath, _BUNDLE, flags, change, [])


def _bundle(datapath: Datapath, kind: int) -> Message:
    flags = _flags(datapath)
    return datapath.ofproto_parser.ONFBundleCtrlMsg(datapath, _BUNDLE, kind, flags, [])


def _flags(datapath: Datapath) -> int:
    return int(datapath.ofproto.ONF_BF_ATOMIC | datapath.ofproto.ONF_BF_ORDERED)


def _instructions(datapath: Datapath, flow: Flow) -> list[Any]:
    ofp, parser = datapath.ofproto, datapath.ofproto_parser
    if flow.goto is not None:
        return [parser.OFPInstructionGotoTable(flow.goto)]
    if flow.output is None:
        return []
    actions = [parser.OFPActionSetField(**{field: value}) for field, value in flow.write]
    if flow.decrement:
        actions.append(parser.OFPActionDecNwTtl())
    actions.append(parser.OFPActionOutput(flow.output))
    return [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, actions)]
