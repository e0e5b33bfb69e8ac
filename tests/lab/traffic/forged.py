"""Frames that a host writes itself, with headers that only nodes of a service chain may write."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

from hawser.node.netns import namespace
from lab.waiting import PATIENCE

MARK = b"forged by a host"
"""Payload that a test looks for where it must not come."""
IPV4, IPV6, VLAN, NSH = 0x0800, 0x86DD, 0x8100, 0x894F
UDP, ROUTING = 17, 43
VXLAN_GPE = 4790
_ALL = 0x0003
_MAC = bytes.fromhex("020000000063")


def frame(
    ethertype: int, payload: bytes, tags: Sequence[int] = (), to: bytes = b"\xff" * 6
) -> bytes:
    """Give an Ethernet frame, with VLAN tags of these types before the payload's."""
    types = (*tags, ethertype)
    tagged = b"".join(struct.pack("!HH", 7, each) for each in types[1:])
    return to + _MAC + struct.pack("!H", types[0]) + tagged + payload


def ipv4(source: str, destination: str, payload: bytes, protocol: int = UDP) -> bytes:
    """Give an IPv4 packet."""
    ends = IPv4Address(source).packed + IPv4Address(destination).packed
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0) + ends
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + payload


def ipv6(source: str, destination: str, payload: bytes, protocol: int = UDP) -> bytes:
    """Give an IPv6 packet."""
    ends = IPv6Address(source).packed + IPv6Address(destination).packed
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + ends + payload


def udp(source_port: int, destination_port: int, payload: bytes = MARK) -> bytes:
    """Give a UDP datagram without checksum."""
    return struct.pack("!HHHH", source_port, destination_port, 8 + len(payload), 0) + payload


def nsh(spi: int, si: int, inside: bytes) -> bytes:
    """Give an NSH of MD type 1 before an Ethernet frame (RFC 8300 section 2)."""
    return struct.pack("!HBBI", 63 << 6 | 6, 1, 3, spi << 8 | si) + bytes(16) + inside


def vxlan_gpe(source: str, destination: str, service: bytes) -> bytes:
    """Give an IPv4 packet with an NSH in VXLAN-GPE."""
    return ipv4(
        source, destination, udp(50_000, VXLAN_GPE, struct.pack("!II", 0x0C000004, 0) + service)
    )


def srh(segments: Sequence[str], left: int, protocol: int, payload: bytes) -> bytes:
    """Give a segment routing header (RFC 8754 section 2) with a list from first to last segment."""
    listed = b"".join(IPv6Address(each).packed for each in reversed(segments))
    last = len(segments) - 1
    return (
        struct.pack("!BBBBBBH", protocol, 2 * len(segments), 4, left, last, 0, 0) + listed + payload
    )


class Tap:
    """A packet socket on an interface of a namespace."""

    def __init__(self, where: str, interface: str) -> None:
        self._socket = namespace.inside(
            where, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
        )
        self._socket.bind((interface, _ALL))

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, sent: bytes) -> None:
        self._socket.send(sent.ljust(60, b"\0"))

    def frame_with(self, mark: bytes, patience: float = PATIENCE) -> bytes | None:
        """Give the next frame that contains these bytes; None if none comes in time."""
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                seen = self._socket.recv(9000)
            except TimeoutError:
                return None
            if mark in seen:
                return seen
        return None


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total
