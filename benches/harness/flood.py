"""Send UDP packets at a rate, cheaply enough that the generator is not the bottleneck.

    python flood.py ADDRESS PORT PAYLOAD PACKETS_PER_SECOND SECONDS

The kernel splits a large datagram into packets (UDP_SEGMENT, udp(7)), so a packet costs a fraction
of a system call. Bursts of 16 packets are sent at absolute times.
"""

from __future__ import annotations

import socket
import sys
import time

_SOL_UDP, _UDP_SEGMENT = 17, 103
_BURST = 16


def flood(address: str, port: int, payload: int, rate: float, seconds: float) -> int:
    """Send packets of `payload` bytes; return their number."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(_SOL_UDP, _UDP_SEGMENT, payload)
        out.connect((address, port))
        burst, bursts = bytes(payload * _BURST), int(rate * seconds / _BURST)
        start = time.monotonic()
        for number in range(bursts):
            early = start + number * _BURST / rate - time.monotonic()
            if early > 0:
                time.sleep(early)
            out.send(burst)
    return bursts * _BURST


if __name__ == "__main__":
    _, to, port_, size, pace, length = sys.argv
    sys.stdout.write(f"{flood(to, int(port_), int(size), float(pace), float(length))}\n")
