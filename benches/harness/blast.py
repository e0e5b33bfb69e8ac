"""Send UDP packets as fast as one core can, and print how many.

    python blast.py ADDRESS PORT PAYLOAD SECONDS

The kernel splits each datagram into packets (UDP_SEGMENT, udp(7)), so a packet costs a fraction of
a system call. If the device offloads segmentation, switch that off first:
`ethtool -K DEV tx-udp-segmentation off`.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time

_SOL_UDP, _UDP_SEGMENT = 17, 103
_BURST = 64


def blast(address: str, port: int, payload: int, seconds: float) -> tuple[int, float]:
    """Send packets of `payload` bytes; return their number and the seconds it took."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(_SOL_UDP, _UDP_SEGMENT, payload)
        out.connect((address, port))
        burst, sent = bytes(payload * _BURST), 0
        start = now = time.monotonic()
        while now < start + seconds:
            with contextlib.suppress(ConnectionRefusedError):
                out.send(burst)
                sent += _BURST
            now = time.monotonic()
    return sent, now - start


if __name__ == "__main__":
    _, to, port_, size, length = sys.argv
    count, took = blast(to, int(port_), int(size), float(length))
    sys.stdout.write(f"{count} {took}\n")
