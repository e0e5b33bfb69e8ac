"""Counters of links and queueing disciplines, straight from rtnetlink (RFC 3549, rtnetlink(7)).

They are read again and again while something is measured, and on the processors that it is measured
on. pyroute2, which does all else here, decodes every attribute of every link in Python, which takes
forty times as long: docs/design/lab-lifecycle.md.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_GET_LINK, _GET_QDISC = 18, 38
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3

_HEADER: Final = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
_LINK: Final = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, type, index, flags, change."""
_QDISC: Final = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, index, handle, parent, info."""
_ATTRIBUTE: Final = struct.Struct("=HH")
"""struct rtattr: length, type."""
_TYPE_MASK: Final = 0x3FFF

_IFLA_IFNAME, _IFLA_STATS64 = 3, 23
_TCA_STATS2, _BASIC, _QUEUE = 7, 1, 3
_LINK_COUNTERS: Final = struct.Struct("=8Q")
"""The beginning of struct rtnl_link_stats64, in the order of `_LINK_NAMES`."""
_LINK_NAMES: Final = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_drop_device",
    "tx_drop_device",
)
_NOHANDLER: Final = struct.Struct("=Q")
_NOHANDLER_AT: Final = 23 * 8
_BASIC_COUNTERS: Final = struct.Struct("=QI")
"""struct gnet_stats_basic: bytes, packets."""
_QUEUE_COUNTERS: Final = struct.Struct("=III")
"""The beginning of struct gnet_stats_queue: packets that wait, bytes of these, drops."""

_RECEIVE: Final = 1 << 18
"""Bytes taken at once; a part of a dump has 32 KiB at most."""
_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Link:
    """An interface: its index, and its counters by our names (see `Node.counters`)."""

    index: int
    counters: Mapping[str, int]


@dataclass(frozen=True)
class Qdisc:
    """Counters of a queueing discipline."""

    packets: int = 0
    bytes: int = 0
    drops: int = 0
    backlog: int = 0
    """Bytes that wait now."""


def links() -> dict[str, Link]:
    """Read all links of this thread's namespace, by name.

    Raises:
        OSError: the kernel refuses.
    """
    found = {}
    for message in _dump(_GET_LINK, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        attributes = _attributes(message[_LINK.size :])
        name = bytes(attributes[_IFLA_IFNAME]).rstrip(b"\0").decode()
        index = _LINK.unpack_from(message)[2]
        found[name] = Link(index, _link_counters(attributes[_IFLA_STATS64]))
    return found


def qdiscs() -> dict[tuple[int, int], Qdisc]:
    """Read all queueing disciplines of this thread's namespace, by interface index and handle.

    Raises:
        OSError: the kernel refuses.
    """
    found = {}
    for message in _dump(_GET_QDISC, _QDISC.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        _, index, handle, _, _ = _QDISC.unpack_from(message)
        nested = _attributes(message[_QDISC.size :]).get(_TCA_STATS2)
        found[index, handle] = Qdisc() if nested is None else _qdisc(_attributes(nested))
    return found


def _link_counters(data: memoryview) -> dict[str, int]:
    found = dict(zip(_LINK_NAMES, _LINK_COUNTERS.unpack_from(data), strict=True))
    if len(data) >= _NOHANDLER_AT + _NOHANDLER.size:  # Linux 4.6
        found["rx_drop_nohandler"] = _NOHANDLER.unpack_from(data, _NOHANDLER_AT)[0]
    return found


def _qdisc(statistics: Mapping[int, memoryview]) -> Qdisc:
    count, packets = _BASIC_COUNTERS.unpack_from(statistics[_BASIC])
    _, backlog, drops = _QUEUE_COUNTERS.unpack_from(statistics[_QUEUE])
    return Qdisc(packets, count, drops, backlog)


def _dump(kind: int, body: bytes) -> Iterator[memoryview]:
    """Ask for all of a kind; give what follows the header of each answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as route:
        route.settimeout(_SECONDS)
        header = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | _DUMP, 1, 0)
        route.send(header + body)
        while True:
            part = memoryview(route.recv(_RECEIVE))
            while part:
                size, answer, *_ = _HEADER.unpack_from(part)
                message = part[_HEADER.size : size]
                if answer == _ERROR:
                    code = -struct.unpack_from("=i", message)[0]
                    raise OSError(code, os.strerror(code))
                if answer == _DONE:
                    return
                yield message
                part = part[_aligned(size) :]


def _attributes(data: memoryview) -> dict[int, memoryview]:
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        found[kind & _TYPE_MASK] = data[_ATTRIBUTE.size : size]
        data = data[max(_aligned(size), _ATTRIBUTE.size) :]
    return found


def _aligned(size: int) -> int:
    return (size + 3) & ~3
