"""Ethernet frames by hand, as a hostile neighbour on a WAN sends them.

Run in a namespace: `python frames.py INTERFACE`. It sends each line of its input, a frame in
hexadecimal digits.
"""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address

UDP, ICMP, GRE = 17, 1, 47
IPV4, IPV6, LLDP = 0x0800, 0x86DD, 0x88CC


_LEAST = 60
"""Length of the shortest frame without its check sequence (IEEE 802.3), bytes."""


@dataclass(frozen=True)
class Frame:
    """A frame, by what is particular about it."""

    to: str
    source: str = ""
    """By default a neighbour's address of the same version."""
    port: int = 53
    protocol: int = UDP
    tags: tuple[int, ...] = ()
    """VLANs, from the outermost."""
    ethernet_type: int = 0
    """Other than that of IP."""
    icmp_type: int = 0
    link: str = field(default="", compare=False)
    """Hardware address; by default the gateway's."""


def encode(frame: Frame, gateway: str, name: str) -> bytes:
    """Give its bytes; `name` is the payload, `gateway` its hardware address."""
    destination = bytes.fromhex((frame.link or gateway).replace(":", ""))
    tags = b"".join(struct.pack("!HH", 0x8100, tag) for tag in frame.tags)
    packet = _packet(frame, name.encode())
    version = IPV4 if packet[0] >> 4 == 4 else IPV6
    kind = struct.pack("!H", frame.ethernet_type or version)
    frame = destination + b"\x02\0\0\0\0\x66" + tags + kind + packet
    return frame.ljust(_LEAST, b"\0")


def _packet(frame: Frame, payload: bytes) -> bytes:
    to = ip_address(frame.to)
    neighbour = "198.18.0.1" if to.version == 4 else "fd00::1"
    source = ip_address(frame.source or neighbour)
    inner = payload
    if frame.protocol == UDP:
        inner = _udp(source, to, frame.port, payload)
    if frame.protocol == ICMP:
        inner = struct.pack("!BBHI", frame.icmp_type, 0, 0, 0) + payload
        inner = inner[:2] + _checksum(inner) + inner[4:]
    if to.version == 6:
        header = struct.pack("!IHBB", 6 << 28, len(inner), frame.protocol, 64)
        return header + source.packed + to.packed + inner
    length = 20 + len(inner)
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, frame.protocol, 0)
    header += source.packed + to.packed
    return header[:10] + _checksum(header) + header[12:] + inner


def _udp(
    source: IPv4Address | IPv6Address, to: IPv4Address | IPv6Address, port: int, payload: bytes
) -> bytes:
    length = 8 + len(payload)
    pseudo = source.packed + to.packed + struct.pack("!II", length, UDP)
    udp = struct.pack("!HHHH", 4000, port, length, 0)
    return udp[:6] + _checksum(pseudo + udp + payload) + payload


def _checksum(data: bytes) -> bytes:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", 0xFFFF - total)


if __name__ == "__main__":
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((sys.argv[1], 0))
    for line in sys.stdin:
        link.send(bytes.fromhex(line))
