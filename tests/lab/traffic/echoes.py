"""ICMP echoes, each of which is waited for, however late it comes.

`ping` stops waiting for its last answer after twice the longest round trip so far, which on a
busy machine may be less than the answer needs.
"""

from __future__ import annotations

import json
import subprocess
import sys

from lab.waiting import PATIENCE

_PROGRAM = """
import json, os, select, socket, struct, sys, time
to, count, interval, tos, patience = sys.argv[1], *map(float, sys.argv[2:])
link = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
link.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
link.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(tos))
link.connect((to, 0))
name, sent, times = os.getpid() & 0xFFFF, [], {}

def request(number):
    words = [8 << 8, 0, name, number, *[0] * 28]
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    words[1] = ~(total + (total >> 16)) & 0xFFFF
    return struct.pack(f"!{len(words)}H", *words)

heard = start = time.monotonic()
while len(times) < count:
    now = time.monotonic()
    if len(sent) < count and now >= start + len(sent) * interval:
        sent.append(now)
        heard = now
        link.send(request(len(sent) - 1))
    if now - heard > patience:
        break
    if select.select([link], [], [], 0.002)[0]:
        packet = link.recv(9000)
        kind, _, _, who, number = struct.unpack_from("!BBHHH", packet, (packet[0] & 15) * 4)
        if (kind, who) == (0, name):
            heard = time.monotonic()
            times.setdefault(number, (heard - sent[number]) * 1e3)
print(json.dumps(sorted(times.values())))
"""


def echoes(
    namespace: str, to: str, count: int, interval: float = 0.01, tos: int = 0
) -> list[float]:
    """Send `count` echo requests; return the round-trip times of those answered, ms, sorted."""
    arguments = (to, str(count), str(interval), str(tos), str(PATIENCE / 2))
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", _PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    times: list[float] = json.loads(done.stdout)
    return times
