"""Script that forwards NSH packets: `python3 nsh_forward.py WAY INTERFACE OUT NEIGHBOUR`.

It has one packet socket per interface and handles one packet at a time: it decodes Ethernet and
NSH, decrements the service index, rebuilds the packet and sends it to the neighbour's Ethernet
address. WAY selects how it decodes. `slices` does the minimum that a script can do. `fields` turns
each header into an object with an attribute per field, down to the bytes of Ethernet addresses, and
encodes it from that object, as functions in published experiments do (OpenDaylight's vxlan_tool.py;
this script contains none of its code).
"""

from __future__ import annotations

import socket
import struct
import sys
from ctypes import Structure, c_ubyte, c_uint, c_ushort
from typing import ClassVar, Self

_ETHERTYPE = 0x894F
_ETHERNET, _BASE, _CONTEXT = struct.Struct("!14B"), struct.Struct("!HBBI"), struct.Struct("!4I")
_BASE_AT = _ETHERNET.size
_CONTEXT_AT = _BASE_AT + _BASE.size
_INSIDE_AT = _CONTEXT_AT + _CONTEXT.size


def slices(frame: bytes, addresses: bytes) -> bytes | None:
    """Return the frame to send on, or None if it is not for a function."""
    (ethertype,) = struct.unpack_from("!H", frame, 12)
    if ethertype != _ETHERTYPE:
        return None
    first, md_type, next_protocol, path = _BASE.unpack_from(frame, _BASE_AT)
    version, length = first >> 14, (first & 63) * 4
    spi, index = path >> 8, path & 255
    if version or md_type not in {1, 2} or index <= 1:
        return None
    context = frame[_CONTEXT_AT : _BASE_AT + length]
    inside = frame[_BASE_AT + length :]
    header = _BASE.pack(first, md_type, next_protocol, spi << 8 | (index - 1))
    return addresses + struct.pack("!H", _ETHERTYPE) + header + context + inside


class _Plain(Structure):
    """A header in which every field is whole bytes."""

    layout: ClassVar[struct.Struct]

    @classmethod
    def decode(cls, octets: bytes) -> Self:
        """Decode field by field."""
        header = cls()
        for (name, *_), value in zip(cls._fields_, cls.layout.unpack(octets), strict=True):
            setattr(header, name, value)
        return header

    def build(self) -> bytes:
        """Encode the header."""
        return self.layout.pack(*(getattr(self, name) for name, *_ in self._fields_))


class _Ethernet(_Plain):
    layout = _ETHERNET
    _fields_: ClassVar = [
        *((f"destination{n}", c_ubyte) for n in range(6)),
        *((f"source{n}", c_ubyte) for n in range(6)),
        ("type0", c_ubyte),
        ("type1", c_ubyte),
    ]


class _Context(_Plain):
    """MD type 1 (RFC 8300 section 2.4)."""

    layout = _CONTEXT
    _fields_: ClassVar = [(f"context{n}", c_uint) for n in range(1, 5)]


class _Base(Structure):
    """Base header and service path header (RFC 8300 section 2.2, 2.3)."""

    _fields_: ClassVar = [
        ("version", c_ushort, 2),
        ("flags", c_ushort, 8),
        ("length", c_ushort, 6),
        ("md_type", c_ubyte),
        ("next_protocol", c_ubyte),
        ("spi", c_uint, 24),
        ("si", c_uint, 8),
    ]

    @classmethod
    def decode(cls, octets: bytes) -> Self:
        """Decode field by field."""
        header = cls()
        first, header.md_type, header.next_protocol, path = _BASE.unpack(octets)
        header.version, header.flags, header.length = first >> 14, first >> 6 & 255, first & 63
        header.spi, header.si = path >> 8, path & 255
        return header

    def build(self) -> bytes:
        """Encode the header."""
        first = self.version << 14 | self.flags << 6 | self.length
        return _BASE.pack(first, self.md_type, self.next_protocol, self.spi << 8 | self.si)


def fields(frame: bytes, addresses: bytes) -> bytes | None:
    """Return the frame to send on, or None if it is not for a function."""
    ethernet = _Ethernet.decode(frame[:_BASE_AT])
    if ethernet.type0 << 8 | ethernet.type1 != _ETHERTYPE:
        return None
    base = _Base.decode(frame[_BASE_AT:_CONTEXT_AT])
    if base.version or base.md_type != 1 or base.si <= 1:
        return None
    context = _Context.decode(frame[_CONTEXT_AT:_INSIDE_AT])
    base.si -= 1
    onward = _Ethernet.decode(addresses + bytes((ethernet.type0, ethernet.type1)))
    return onward.build() + base.build() + context.build() + frame[_INSIDE_AT:]


_WAYS = {"slices": slices, "fields": fields}


def main(way: str, interface: str, out: str, neighbour: str) -> None:
    """Forward until killed."""
    forward = _WAYS[way]
    sockets = []
    for name in (interface, out):
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE))
        one.bind((name, _ETHERTYPE))
        sockets.append(one)
    receive, send = sockets
    addresses = bytes.fromhex(neighbour.replace(":", "")) + send.getsockname()[4]
    print("ready", flush=True)
    while True:
        frame = forward(receive.recv(2048), addresses)
        if frame is not None:
            send.send(frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
