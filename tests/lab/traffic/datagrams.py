"""UDP flows of which every datagram is answered, for tests of loss and order.

A bounded number of datagrams is under way at a time, so that a sender which had to wait for the
processor does not overflow a queue when it goes on: what is lost was lost by what is tested.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from lab.gateway.pair import Lab
from lab.waiting import PATIENCE

_SERVER = """
import socket, struct, sys
link = socket.socket(type=socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
link.bind((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
highest, reordered = {}, 0
while True:
    data, peer = link.recvfrom(9000)
    number, = struct.unpack_from("!I", data)
    reordered += number < highest.get(peer, 0)
    highest[peer] = max(number, highest.get(peer, 0))
    answer = struct.pack("!II", number, reordered)
    link.sendto(answer + data[8:] if sys.argv[3] == "whole" else answer, peer)
"""

_CLIENT = """
import json, select, socket, struct, sys, time
here, there, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
flows, window, size, count, fifo = map(int, sys.argv[4:9])
rate, patience = map(float, sys.argv[9:])
links = []
for _ in range(flows):
    link = socket.socket(type=socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
    link.bind((here, 0))
    link.connect((there, port))
    link.setblocking(False)
    links.append(link)
waits, sent = {link: set() for link in links}, {link: 0 for link in links}
passed = {link: set() for link in links}
total = reordered = 0
told = False
heard = last = time.monotonic()
while True:
    now = time.monotonic()
    may = [] if told or total == count else [x for x in links if len(waits[x]) < window]
    if not any(waits.values()) and (told or total == count) or now - heard > patience:
        break
    if may and now >= last + 1 / rate:
        last = max(last + 1 / rate, now - 10 / rate)
        link = min(may, key=sent.get)
        try:
            link.send(struct.pack("!II", sent[link], 0) + bytes(size - 8))
        except BlockingIOError:
            continue
        waits[link].add(sent[link])
        sent[link] += 1
        total += 1
        heard = now if total == 1 else heard
    wait = 0 if may else 0.02
    for link in select.select([*links, *([] if told else [sys.stdin])], [], [], wait)[0]:
        if link is sys.stdin:
            told = True
            continue
        number, seen = struct.unpack_from("!II", link.recv(9000))
        waits[link].discard(number)
        if fifo:
            passed[link] |= {each for each in waits[link] if each < number}
            passed[link].discard(number)
            waits[link] -= passed[link]
        reordered, heard = max(reordered, seen), time.monotonic()
lost = sum(map(len, [*waits.values(), *passed.values()]))
print(json.dumps({"sent": total, "lost": lost, "reordered": reordered}))
"""


@dataclass(frozen=True)
class Delivery:
    """What became of the datagrams of all flows."""

    sent: int
    lost: int
    """Those that were not answered."""
    reordered: int
    """Those that came to the server behind a later one of their flow."""


@dataclass(frozen=True)
class Datagrams:
    """Flows from branch 1 to branch 2 of a lab of gateways."""

    client: subprocess.Popen[str]

    def delivery(self) -> Delivery:
        """Wait for the end and all answers, and tell what became of the datagrams."""
        assert self.client.stdout
        return Delivery(**json.loads(self.client.stdout.read()))

    def stop(self) -> Delivery:
        """Send no more; the rest as `delivery`."""
        told, _ = self.client.communicate("\n", timeout=PATIENCE)
        return Delivery(**json.loads(told))


def send_datagrams(
    lab: Lab,
    count: int | None = None,
    here: str = "10.1.0.1",
    there: str = "10.2.0.1",
    port: int = 9000,
    *,
    flows: int = 1,
    window: int = 64,
    size: int = 400,
    rate: float = 2000,
    whole: bool = True,
    fifo: bool = False,
) -> Datagrams:
    """Begin to send so many datagrams (None: until stopped), at most `rate` a second in total.

    Each flow has at most `window` unanswered. `whole`: the answer has the datagram's content.
    `fifo`: an answer says that those before it which have none are lost, so nobody waits for them.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = lab.start(
        *(2, sys.executable, "-c", _SERVER, there, str(port), "whole" if whole else "number"),
        stdout=subprocess.PIPE,
    )
    assert server.stdout
    assert server.stdout.readline() == "listening\n"
    most = -1 if count is None else count
    numbers = (port, flows, window, size, most, int(fifo), rate, PATIENCE / 2)
    arguments = (here, there, *map(str, numbers))
    return Datagrams(lab.start(1, sys.executable, "-c", _CLIENT, *arguments, **pipes))
