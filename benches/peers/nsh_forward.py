"""A forwarder as a script: `python3 nsh_forward.py INTERFACE OUT NEIGHBOUR`.

One packet socket on each interface and one packet at a time: decode Ethernet and NSH, take one off
the service index, build the packet anew and send it on to the neighbour's Ethernet address.
"""

from __future__ import annotations

import socket
import struct
import sys

_ETHERTYPE = 0x894F
_ETHERNET, _BASE = 14, 8


def forward(frame: bytes, addresses: bytes) -> bytes | None:
    """The frame that goes on; none where it is not for a function."""
    (ethertype,) = struct.unpack_from("!H", frame, 12)
    if ethertype != _ETHERTYPE:
        return None
    first, md_type, next_protocol, path = struct.unpack_from("!HBBI", frame, _ETHERNET)
    version, length = first >> 14, (first & 63) * 4
    spi, index = path >> 8, path & 255
    if version or md_type not in {1, 2} or index <= 1:
        return None
    context = frame[_ETHERNET + _BASE : _ETHERNET + length]
    inside = frame[_ETHERNET + length :]
    header = struct.pack("!HBBI", first, md_type, next_protocol, spi << 8 | (index - 1))
    return addresses + struct.pack("!H", _ETHERTYPE) + header + context + inside


def main(interface: str, out: str, neighbour: str) -> None:
    """Forward until killed."""
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
