"""Segment routing over IPv6 in the kernel (RFC 8754, RFC 8986), through netlink."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from socket import AF_INET6

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl.rtmsg import rtmsg_base

from hawser.node.netns import sysctl
from hawser.overlay.lab.plan import SegmentPlan, VrfPlan
from hawser.spec.chain import Encapsulation

STRICT = "net.vrf.strict_mode"
"""Kernel setting: there where it has VRF devices."""

_PREFIX = 128
_BY_DESTINATION = "0.0.0.0"  # noqa: S104 (not listened on)
"""Next hop of End.DX4 that is found by the destination of the packet inside (`::` with End.DX6).
For any other, Linux asks the next hop's link for that destination's Ethernet address."""


_REDUCED = 3
"""SEG6_IPTUN_MODE_ENCAP_RED of linux/seg6_iptunnel.h."""
_MODES = {
    Encapsulation.WHOLE: "encap",
    Encapsulation.REDUCED: "encap.red",
    Encapsulation.INSERTED: "inline",
}

# The kernel has it since 6.0, pyroute2 only the older modes.
rtmsg_base.seg6_encap_info.ipv6_sr_hdr.encapmodes["encap.red"] = _REDUCED


def encapsulation(segments: Sequence[IPv6Address], mode: Encapsulation) -> dict[str, object]:
    """Give what a route puts in front of packets: a header with these segments, first to last.

    On the wire the last one comes first (RFC 8754 section 2). A reduced header lacks the first one
    (RFC 8986 section 5.2), and one that is inserted has the packet's destination behind all others.
    """
    return {
        "type": "seg6",
        "mode": _MODES[mode],
        "segs": [str(each) for each in reversed(segments)],
    }


def vrf(route: IPRoute, plan: VrfPlan) -> None:
    """Make a VRF of the namespace's node, so that segments may lead to its table.

    For that a table must have one VRF alone (`strict_mode`), which is off at first.
    """
    route.link("add", ifname=plan.name, kind="vrf", vrf_table=plan.table)
    index = route.link_lookup(ifname=plan.name)[0]
    route.link("set", index=index, state="up")
    sysctl.write({STRICT: "1"})


def local(route: IPRoute, plan: SegmentPlan, index: int) -> None:
    """Make a segment of the namespace's node.

    Args:
        route: in that namespace.
        plan: the segment.
        index: an interface other than the loopback, with which the kernel forgets what to do.
    """
    encap: dict[str, object] = {"type": "seg6local", "action": plan.behaviour}
    match plan.behaviour:
        case "End.DX4":
            encap["nh4"] = _BY_DESTINATION
        case "End.DX6":
            encap["nh6"] = "::"
        case "End.X":
            encap["nh6"] = str(plan.via)
        case "End.DT6":
            encap["table"] = plan.table
        case "End.DT4" | "End.DT46":
            encap["vrf_table"] = plan.table
    destination = f"{plan.segment}/{_PREFIX}"
    route.route("add", family=AF_INET6, dst=destination, oif=index, encap=encap)
