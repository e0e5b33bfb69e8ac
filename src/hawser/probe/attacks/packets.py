"""Packets of a capture: who sent how much to whom, and when. Pure: bytes in, tuples out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

_FILE_HEADER, _RECORD_HEADER = 24, 16
_MICROSECONDS, _NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
_ETHERNET, _RAW, _COOKED = 1, 101, 113
"""Link types: Ethernet, IP packets alone, and Linux "cooked" (tcpdump.org/linktypes.html)."""
_BEFORE_KIND: Final = {_ETHERNET: 12, _RAW: 0, _COOKED: 14}
"""Bytes before the EtherType, if there is one."""
_IPV4, _IPV6 = 0x0800, 0x86DD
_LINK_TYPES: Final = "Ethernet (1), IP (101) or Linux cooked (113)"
_TAGS: Final = frozenset({0x8100, 0x88A8})
_TCP: Final = 6
_WITH_PORTS: Final = frozenset({_TCP, 17, 132})


class Way(NamedTuple):
    """One direction of a conversation."""

    protocol: int
    source: bytes
    source_port: int
    target: bytes
    target_port: int

    @property
    def back(self) -> Way:
        """The other direction."""
        return Way(self.protocol, self.target, self.target_port, self.source, self.source_port)

    @property
    def ends(self) -> tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address]:
        """Source and target."""
        return ip_address(self.source), ip_address(self.target)


@dataclass(frozen=True)
class Packet:
    """One packet."""

    time_us: int
    """Microseconds since 1970."""
    way: Way
    size: int
    """Bytes of the IP packet."""
    payload: int
    """Bytes above TCP, UDP or else IP."""


class CaptureError(ValueError):
    """A file is no capture of IP packets."""


class Record(NamedTuple):
    """One frame of a file."""

    time_ns: int
    """Nanoseconds since 1970."""
    at: int
    """Where it begins in the file."""
    end: int
    """Where it ends there."""
    length: int
    """Bytes that it had; more than are there if it was cut."""
    kind_at: int
    """Where its EtherType stands; of IP packets alone, where these begin."""
    has_kind: bool
    """Whether there is an EtherType."""

    def kind(self, content: bytes) -> bytes:
        """Give what follows from the EtherType on, with that of an IP packet alone."""
        rest = content[self.kind_at : self.end]
        if self.has_kind or not rest:
            return rest
        return (_IPV6 if rest[0] >> 4 == 6 else _IPV4).to_bytes(2, "big") + rest


def records(content: bytes) -> Iterator[Record]:
    """Give the frames of a pcap file. A record that is not whole ends the file.

    Raises:
        CaptureError: it is no pcap file of packets with such headers, or with none.
    """
    order, unit_ns, link = _header(content)
    at = _FILE_HEADER
    while len(content) - at >= _RECORD_HEADER:
        seconds, fraction, size, length = struct.unpack_from(f"{order}IIII", content, at)
        at += _RECORD_HEADER
        if at + size > len(content):
            return
        time_ns = seconds * 1_000_000_000 + fraction * unit_ns
        kind_at = min(at + _BEFORE_KIND[link], at + size)
        yield Record(time_ns, at, at + size, length, kind_at, link != _RAW)
        at += size


def packets(content: bytes) -> Iterator[Packet]:
    """Give the IP packets of a pcap file of Ethernet frames, cut ones too; skip all other frames.

    A packet is taken as its lengths say.

    Raises:
        CaptureError: it is no such file.
    """
    for record in records(content):
        found = _packet(content, record)
        if found is not None:
            yield Packet(record.time_ns // 1000, *found)


def way_of(content: bytes, record: Record) -> Way | None:
    """Give the way of a frame; None if it is no IP packet."""
    found = _packet(content, record)
    return found[0] if found is not None else None


def _header(content: bytes) -> tuple[str, int, int]:
    """Give a file's byte order, how many nanoseconds its fractions are, and its link type."""
    if len(content) < _FILE_HEADER:
        raise CaptureError("found no header of a pcap file")
    for order in "<>":
        magic, *_, link = struct.unpack_from(f"{order}IHHiIII", content)
        if magic in (_MICROSECONDS, _NANOSECONDS):
            if link & 0xFFFF not in _BEFORE_KIND:
                raise CaptureError(f"found link type {link & 0xFFFF}, expected {_LINK_TYPES}")
            return order, 1000 if magic == _MICROSECONDS else 1, link & 0xFFFF
    raise CaptureError("found no pcap file")


_Found = tuple[Way, int, int]
"""Way, size and payload."""


def _packet(content: bytes, record: Record) -> _Found | None:
    at, end = record.kind_at, record.end
    if not record.has_kind:
        is_ipv6 = at < end and content[at] >> 4 == 6
        return (_ipv6 if is_ipv6 else _ipv4)(content, at, end)
    while at + 2 <= end:
        kind = int.from_bytes(content[at : at + 2], "big")
        if kind in _TAGS:
            at += 4
            continue
        if kind == _IPV4:
            return _ipv4(content, at + 2, end)
        return _ipv6(content, at + 2, end) if kind == _IPV6 else None
    return None


def _ipv4(content: bytes, at: int, end: int) -> _Found | None:
    if at + 20 > end or content[at] >> 4 != 4:
        return None
    size, protocol = int.from_bytes(content[at + 2 : at + 4], "big"), content[at + 9]
    fragment = int.from_bytes(content[at + 6 : at + 8], "big") & 0x1FFF
    header = 4 * (content[at] & 0xF)
    source, target = content[at + 12 : at + 16], content[at + 16 : at + 20]
    if fragment:
        return Way(protocol, source, 0, target, 0), size, max(0, size - header)
    way, above = _way(protocol, source, target, content[at + header : end])
    return way, size, max(0, size - header - above)


def _ipv6(content: bytes, at: int, end: int) -> _Found | None:
    if at + 40 > end or content[at] >> 4 != 6:
        return None
    size, protocol = 40 + int.from_bytes(content[at + 4 : at + 6], "big"), content[at + 6]
    source, target = content[at + 8 : at + 24], content[at + 24 : at + 40]
    way, above = _way(protocol, source, target, content[at + 40 : end])
    return way, size, max(0, size - 40 - above)


def _way(protocol: int, source: bytes, target: bytes, above: bytes) -> tuple[Way, int]:
    """Give the way of a packet, and the length of the header above IP."""
    if protocol not in _WITH_PORTS or len(above) < 4:
        return Way(protocol, source, 0, target, 0), 0
    ports = struct.unpack_from(">HH", above)
    header = 4 * (above[12] >> 4) if protocol == _TCP and len(above) > 12 else 8
    return Way(protocol, source, ports[0], target, ports[1]), header
