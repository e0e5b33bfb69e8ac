"""Shapers in the kernel: HTB trees created, changed and counted through netlink.

All functions act in the namespace of their `IPRoute`.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, cast

from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.tcmsg import plugins, sched_pfifo, sched_tbf
from pyroute2.protocols import ETH_P_ALL

from hawser.node.netns import htb, u32
from hawser.node.netns.htb import HtbClass, Leaf
from hawser.node.netns.rtnetlink import Qdisc
from hawser.overlay.lab.plan import ShaperPlan

_ETHERNET = 14 + 8
"""Bytes that a frame may have beyond its MTU: header and two VLAN tags."""

_ANY_RATE = 1 << 40
"""Bytes a second of a token bucket that never holds a packet back."""

_MICROSECONDS = 1e6

_INGRESS = 0xFFFF_0000

_BY_SENDER, _BY_ADDRESS = 1, 2
"""Priorities of filters: who is asked first. Tables of u32 are numbered as they are made."""


class _Segmenter:
    """TBF as pyroute2 does not have it: burst in bytes and a 64-bit rate (linux/pkt_sched.h).

    HTB and a plain queue would take a packet of 64 kB (TSO, UDP segmentation, forwarded GRO) as
    one. TBF cuts what exceeds its burst into wire packets before it queues them, so that queue
    and loss are those of a real port. Its rate is out of reach: HTB does the shaping.
    """

    parent = sched_tbf.parent
    fix_request = staticmethod(sched_tbf.fix_request)

    class options(nla):  # type: ignore[misc] # noqa: N801 (pyroute2 has no types, and its names)
        nla_map = (
            ("TCA_TBF_UNSPEC", "none"),
            ("TCA_TBF_PARMS", "tbf_parms"),
            ("TCA_TBF_RTAB", "hex"),
            ("TCA_TBF_PTAB", "hex"),
            ("TCA_TBF_RATE64", "uint64"),
            ("TCA_TBF_PRATE64", "uint64"),
            ("TCA_TBF_BURST", "uint32"),
        )
        tbf_parms = sched_tbf.options.tbf_parms

    @staticmethod
    def get_parameters(request: dict[str, Any]) -> dict[str, Any]:
        parameters = {"rate": 0xFFFF_FFFF, "limit": request["limit"], "rate___reserved": 1}
        return {
            "attrs": [
                ["TCA_TBF_PARMS", parameters],
                ["TCA_TBF_RATE64", _ANY_RATE],
                ["TCA_TBF_BURST", request["burst"]],
            ]
        }


plugins["tbf"] = cast("types.ModuleType", _Segmenter)
plugins.setdefault("bfifo", sched_pfifo)  # the same request; the kernel counts bytes in one


def build(route: IPRoute, index: int, mtu: int, shaper: ShaperPlan) -> None:
    """Make the tree of a shaper on an interface without one.

    Raises:
        NetlinkError: the kernel refuses.
    """
    classes = htb.leaves(shaper)
    route.tc("add", "htb", index, htb.ROOT, default=0)
    _class(route, "add-class", index, htb.WHOLE, htb.ROOT, htb.whole(shaper))
    for leaf in classes:
        if leaf.mark is not None:
            _class(route, "add-class", index, leaf.mark, htb.WHOLE, leaf.htb)
        _class(route, "add-class", index, leaf.classid, leaf.parent, leaf.htb)
        _queue(route, "add", index, mtu, leaf)
    for leaf, handle in htb.filters(classes):
        _filter(route, "add-filter", index, handle & 0xFFF, leaf, leaf.classid)
    if shaper.sender_marks:
        for leaf in (each for each in classes if each.mark is not None):
            _sender_filter(route, index, leaf.minor & 0xFF, htb.ROOT | leaf.minor)


def exists(route: IPRoute, index: int) -> bool:
    """Whether the interface has a tree."""
    return any(
        qdisc["handle"] == htb.ROOT and qdisc.get_attr("TCA_KIND") == "htb"
        for qdisc in route.get_qdiscs(index=index)
    )


def change(route: IPRoute, index: int, mtu: int, before: ShaperPlan, after: ShaperPlan) -> None:
    """Give an existing tree new rates and queues; queued packets stay."""
    if htb.whole(after) != htb.whole(before):
        _class(route, "change-class", index, htb.WHOLE, htb.ROOT, htb.whole(after))
    for old, new in zip(htb.leaves(before), htb.leaves(after), strict=True):
        if new != old:
            _queue(route, "change", index, mtu, new)
            if new.mark is not None:
                _class(route, "change-class", index, new.mark, htb.WHOLE, new.htb)
            _class(route, "change-class", index, new.classid, new.parent, new.htb)


def set_up(route: IPRoute, index: int, shaper: ShaperPlan, name: str, *, up: bool) -> None:
    """Send a class's packets to its queue or drop them. Queued packets are still sent."""
    for leaf, handle in htb.filters(htb.leaves(shaper)):
        if leaf.name == name:
            if not up:
                _make_down(route, index, leaf)
            target = leaf.classid if up else leaf.down_classid
            _filter(route, "change-filter", index, handle, leaf, target)


def _make_down(route: IPRoute, index: int, leaf: Leaf) -> None:
    least = HtbClass(htb.GUARANTEED, htb.GUARANTEED, 1, 1, htb.MTU_FRAME)
    _class(route, "replace-class", index, leaf.down_classid, htb.ROOT, least)
    if leaf.down_handle not in {q["handle"] for q in route.get_qdiscs(index=index)}:
        route.tc("add", "bfifo", index, leaf.down_handle, parent=leaf.down_classid, limit=0)


def _class(
    route: IPRoute, command: str, index: int, classid: int, parent: int, numbers: HtbClass
) -> None:
    route.tc(
        command,
        "htb",
        index,
        classid,
        parent=parent,
        rate=numbers.rate,
        ceil=numbers.ceil,
        burst=numbers.burst,
        cburst=numbers.cburst,
        quantum=numbers.quantum,
        prio=numbers.priority,
    )


def _queue(route: IPRoute, command: str, index: int, mtu: int, leaf: Leaf) -> None:
    if leaf.impaired:
        _netem(route, command, index, leaf)
        return
    route.tc(
        command,
        "tbf",
        index,
        leaf.handle,
        parent=leaf.classid,
        limit=leaf.queue,
        burst=mtu + _ETHERNET,
    )


def _netem(route: IPRoute, command: str, index: int, leaf: Leaf) -> None:
    """Add delay, loss and duplication by netem, whose queue counts packets, not bytes."""
    route.tc(
        command,
        "netem",
        index,
        leaf.handle,
        parent=leaf.classid,
        limit=htb.packets_in_flight(leaf),
        delay=round(float(leaf.plan.delay or 0) * _MICROSECONDS),
        loss=float(leaf.plan.loss or 0) * 100,
        duplicate=float(leaf.plan.duplication or 0) * 100,
    )


def redirect(route: IPRoute, index: int, target: int) -> None:
    """Redirect all packets arriving at one interface to another.

    Raises:
        NetlinkError: the kernel refuses.
    """
    route.tc("add", "ingress", index, _INGRESS)
    action = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": target}
    route.tc(
        "add-filter",
        "u32",
        index,
        parent=_INGRESS,
        prio=1,
        protocol=ETH_P_ALL,
        target=0,
        keys=htb.filter_keys(None),
        action=[action],
    )


def _filter(route: IPRoute, command: str, index: int, handle: int, leaf: Leaf, target: int) -> None:
    route.tc(
        command,
        "u32",
        index,
        handle,
        parent=leaf.filtered_at,
        prio=_BY_ADDRESS,
        protocol=ETH_P_ALL,
        target=target,
        keys=htb.filter_keys(leaf.plan.source),
    )


def _sender_filter(route: IPRoute, index: int, mark: int, target: int) -> None:
    """Choose a class by the source Ethernet address, before all filters made by `_filter`."""
    route.tc(
        "add-filter",
        "u32",
        index,
        parent=htb.ROOT,
        prio=_BY_SENDER,
        protocol=ETH_P_ALL,
        target=target,
        keys=u32.sender_keys(mark),
    )


def counters(
    qdiscs: Mapping[tuple[int, int], Qdisc], index: int, shaper: ShaperPlan
) -> dict[str, dict[str, int]] | None:
    """Count the packets of every class of a shaper.

    Args:
        qdiscs: All of the namespace (`rtnetlink.qdiscs`).
        index: The shaper's interface.
        shaper: Its classes.

    Returns:
        By class name: `packets` and `bytes` sent, `drop_queue` (no room), `drop_down` (class down),
        `backlog` (bytes that wait now); with netem `drop_netem` (lost as asked, or no room) instead
        of `drop_queue`. None where the interface has no tree.
    """
    if (index, htb.ROOT) not in qdiscs:
        return None
    return {leaf.name: _counts(leaf, qdiscs, index) for leaf in htb.leaves(shaper)}


def _counts(leaf: Leaf, qdiscs: Mapping[tuple[int, int], Qdisc], index: int) -> dict[str, int]:
    up = qdiscs.get((index, leaf.handle), Qdisc())
    down = qdiscs.get((index, leaf.down_handle), Qdisc())
    return {
        "packets": up.packets,
        "bytes": up.bytes,
        "drop_netem" if leaf.impaired else "drop_queue": up.drops,
        "drop_down": down.drops,
        "backlog": up.backlog,
    }
