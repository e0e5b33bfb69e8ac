"""One end of a GRE tunnel in user space (RFC 2784).

Run as `python -m hawser.node.gre DEVICE LOCAL REMOTE`.

The kernel's GRE is not used even where there is one, so that a result means the same everywhere.
Packets are IPv4 and have the four bytes of the plain header: no checksum, key or sequence number.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address

_TUN = "/dev/net/tun"
_SET_DEVICE = 0x4004_54CA
"""TUNSETIFF (linux/if_tun.h)."""
_PLAIN = 0x0001 | 0x1000
"""IFF_TUN | IFF_NO_PI."""
_IPV4 = 0x0800
_HEADER = struct.pack("!HH", 0, _IPV4)
_NOT_UNDERSTOOD = 0xFC07
"""A checksum, bits 1 to 5 and another version than 0 (RFC 2784 section 2.1 to 2.4)."""
_LARGEST = 65_535
_AT_ONCE = 64
"""Packets taken from one side before the other side's turn."""


def payload(packet: bytes) -> bytes | None:
    """Give the IPv4 packet in a GRE packet with its IPv4 header; None if it has none.

    The other end sends no checksum, key or sequence number. Packets with one are dropped.
    """
    if not packet or packet[0] >> 4 != 4:
        return None
    start = (packet[0] & 0xF) * 4
    if start < 20 or len(packet) < start + len(_HEADER):
        return None
    flags, protocol = struct.unpack_from("!HH", packet, start)
    inner = packet[start + len(_HEADER) :]
    if flags & _NOT_UNDERSTOOD or protocol != _IPV4 or not inner or inner[0] >> 4 != 4:
        return None
    return inner


def main(arguments: Sequence[str]) -> int:
    """Carry packets until the process is ended."""
    device, local, remote = arguments
    tun = _device(device)
    outside = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_GRE)
    outside.bind((str(IPv4Address(local)), 0))
    outside.connect((str(IPv4Address(remote)), 0))
    outside.setblocking(False)
    poll = select.poll()
    poll.register(tun, select.POLLIN)
    poll.register(outside, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == tun:
                _send(tun, outside)
            else:
                _receive(outside, tun)


def _device(name: str) -> int:
    tun = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, _SET_DEVICE, struct.pack("16sH22x", name.encode(), _PLAIN))
    return tun


def _send(tun: int, outside: socket.socket) -> None:
    for _ in range(_AT_ONCE):
        try:
            packet = os.read(tun, _LARGEST)
        except BlockingIOError:
            return
        if packet[0] >> 4 == 4:
            try:
                outside.send(_HEADER + packet)
            except OSError:
                continue  # no room or no way: lost, as on any link


def _receive(outside: socket.socket, tun: int) -> None:
    for _ in range(_AT_ONCE):
        try:
            packet = outside.recv(_LARGEST)
        except OSError:
            return  # nothing left, or an ICMP error about an earlier packet
        inner = payload(packet)
        if inner is not None:
            try:
                os.write(tun, inner)
            except OSError:
                continue  # the device is down, or the packet is malformed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
