"""A service function in user space: takes frames in at one interface, sends them by the other.

    slow_function.py INTERFACE INTERFACE MICROSECONDS

Each packet costs so much processor time. Frames go to the neighbour that the kernel knows there.
"""

import select
import socket
import sys
import time
from pathlib import Path

IPV4 = 0x0800
OUTGOING = 4  # PACKET_OUTGOING (linux/if_packet.h)


def neighbour(interface: str) -> bytes:
    """Hardware address of the only neighbour at an interface."""
    while True:
        for line in Path("/proc/net/arp").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[5] == interface and columns[2] != "0x0":
                return bytes.fromhex(columns[3].replace(":", ""))
        time.sleep(0.01)


def main() -> None:
    names, cost = sys.argv[1:3], float(sys.argv[3]) / 1e6
    ports = []
    for name in names:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4))
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        port.bind((name, IPV4))
        ports.append(port)
    macs = [port.getsockname()[4] for port in ports]
    far = [neighbour(name) for name in names]
    local = {socket.inet_aton(address) for address in sys.argv[4:]}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for port in select.select(ports, [], [])[0]:
            frame, about = port.recvfrom(2048)
            if about[2] == OUTGOING or frame[30:34] in local:
                continue
            end = time.thread_time() + cost
            while time.thread_time() < end:
                pass
            other = 1 - ports.index(port)
            ports[other].send(far[other] + macs[other] + frame[12:])


main()
