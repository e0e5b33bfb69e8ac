"""A load generator that is slow: each datagram costs processor time.

slow_generator.py ADDRESS SECONDS MICROSECONDS
"""

import contextlib
import socket
import sys
import time


def main() -> None:
    address, seconds, cost = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]) / 1e6
    over = time.monotonic() + seconds
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        while time.monotonic() < over:
            end = time.thread_time() + cost
            while time.thread_time() < end:
                pass
            with contextlib.suppress(ConnectionRefusedError):
                out.sendto(bytes(1000), (address, 9))


main()
