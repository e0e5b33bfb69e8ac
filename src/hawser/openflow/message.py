"""OpenFlow 1.3 messages. os-ken builds the few requests; `wire` encodes the many flow changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hawser.openflow import wire
from hawser.overlay.sdwan.flow import Flow

Datapath = Any
"""os-ken's `Datapath`; the library has no types."""
Message = Any

_BUNDLE = 1
"""Bundle identifier; a connection has at most one open bundle."""


def everything(datapath: Datapath) -> Message:
    """Ask for all flows of all tables with their counters (multipart, OpenFlow 1.3.5, 7.3.5.2)."""
    parser = datapath.ofproto_parser
    return parser.OFPFlowStatsRequest(datapath, table_id=datapath.ofproto.OFPTT_ALL)


def read_briefly(parser: Any) -> None:  # noqa: ANN401
    """Make os-ken's parser read only the cookie and the counters of flows."""
    parser.OFPFlowStatsReply.cls_stats_body_cls = wire.FlowCounts


def bundle_open(datapath: Datapath) -> Message:
    """Open a bundle: a set of changes that take effect atomically (ONF EXT-230)."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_OPEN_REQUEST)


def bundle_close(datapath: Datapath) -> Message:
    """Close the bundle. The switch reports bad changes before it answers this message."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_CLOSE_REQUEST)


def bundle_commit(datapath: Datapath) -> Message:
    """Commit the bundle: all changes take effect, or none."""
    return _bundle(datapath, datapath.ofproto.ONF_BCT_COMMIT_REQUEST)


def limit(datapath: Datapath, per_second: int) -> tuple[Message, ...]:
    """Limit the packet-ins of a switch; it drops the excess in its fast path.

    Open vSwitch has a special meter for that (OFPM_CONTROLLER). Only the last message, a barrier,
    is always answered; errors of the earlier ones arrive before that answer.
    """
    parser, ofp = datapath.ofproto_parser, datapath.ofproto
    band = parser.OFPMeterBandDrop(rate=per_second, burst_size=per_second)
    flags = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    return (
        parser.OFPMeterMod(datapath, ofp.OFPMC_DELETE, 0, ofp.OFPM_CONTROLLER),
        parser.OFPMeterMod(datapath, ofp.OFPMC_ADD, flags, ofp.OFPM_CONTROLLER, [band]),
        parser.OFPBarrierRequest(datapath),
    )


def role(datapath: Datapath, *, master: bool, generation: int) -> Message:
    """Ask to become master or slave (7.3.9)."""
    parser, ofp = datapath.ofproto_parser, datapath.ofproto
    wanted = ofp.OFPCR_ROLE_MASTER if master else ofp.OFPCR_ROLE_SLAVE
    return parser.OFPRoleRequest(datapath, wanted, generation)


def sending(datapath: Datapath, port: int, frame: bytes) -> Message:
    """Make the switch send a frame out of a port (packet-out, 7.3.7)."""
    parser, ofp = datapath.ofproto_parser, datapath.ofproto
    actions = [parser.OFPActionOutput(port)]
    return parser.OFPPacketOut(
        datapath, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, actions, data=frame
    )


def changes(datapath: Datapath, stale: Iterable[int], new: Iterable[Flow]) -> Iterator[bytes]:
    """Encode changes for the open bundle: removals, by cookie, then additions.

    The switch answers only the ones that it refuses.
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
