"""Requests and changes as OpenFlow 1.3 messages: few by os-ken's parser, many as bytes (`wire`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hawser.openflow import wire
from hawser.overlay.sdwan.flow import Flow

Datapath = Any
"""os-ken's `Datapath`; the library has no types."""
Message = Any

_BUNDLE = 1
"""Id of the only bundle that is open on a connection."""


def everything(datapath: Datapath) -> Message:
    """Ask for all flows of all tables with their counters (multipart, OpenFlow 1.3.5, 7.3.5.2)."""
    parser = datapath.ofproto_parser
    return parser.OFPFlowStatsRequest(datapath, table_id=datapath.ofproto.OFPTT_ALL)


def read_briefly(parser: Any) -> None:  # noqa: ANN401
    """Let os-ken's parser read of flows only what is looked at."""
    parser.OFPFlowStatsReply.cls_stats_body_cls = wire.FlowCounts


def bundle_open(datapath: Datapath) -> Message:
    """Begin a set of changes that become visible to packets at once (ONF EXT-230)."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_OPEN_REQUEST)


def bundle_close(datapath: Datapath) -> Message:
    """End the set. What is wrong with a change of it was answered before this is."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_CLOSE_REQUEST)


def bundle_commit(datapath: Datapath) -> Message:
    """Carry out the changes, all or none."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_COMMIT_REQUEST)


def limit(datapath: Datapath, per_second: int) -> tuple[Message, ...]:
    """Let the switch hand over so many packets a second; what is more it drops in its fast path.

    Open vSwitch has a meter of its own for that (OFPM_CONTROLLER). The last of the messages is
    answered, after the mistakes of those before.
    """
    parser, ofp = datapath.ofproto_parser, datapath.ofproto
    band = parser.OFPMeterBandDrop(rate=per_second, burst_size=per_second)
    flags = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    return (
        parser.OFPMeterMod(datapath, ofp.OFPMC_DELETE, 0, ofp.OFPM_CONTROLLER),
        parser.OFPMeterMod(datapath, ofp.OFPMC_ADD, flags, ofp.OFPM_CONTROLLER, [band]),
        parser.OFPBarrierRequest(datapath),
    )


def sending(datapath: Datapath, port: int, frame: bytes) -> Message:
    """Send a frame by a port (7.3.7)."""
    parser, ofp = datapath.ofproto_parser, datapath.ofproto
    actions = [parser.OFPActionOutput(port)]
    return parser.OFPPacketOut(
        datapath, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, actions, data=frame
    )


def changes(datapath: Datapath, stale: Iterable[int], new: Iterable[Flow]) -> Iterator[bytes]:
    """Give what puts changes into the open bundle: flows that go, by cookie, then those that come.

    They are answered only when they are wrong.
    """
    flags = _flags(datapath)
    for cookie in stale:
        yield wire.removal(cookie, _BUNDLE, flags)
    for flow in new:
        yield wire.addition(flow, _BUNDLE, flags)


def _bundle(datapath: Datapath, kind: int) -> Message:
    flags = _flags(datapath)
    return datapath.ofproto_parser.ONFBundleCtrlMsg(datapath, _BUNDLE, kind, flags, [])


def _flags(datapath: Datapath) -> int:
    return int(datapath.ofproto.ONF_BF_ATOMIC | datapath.ofproto.ONF_BF_ORDERED)
