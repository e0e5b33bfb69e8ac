"""One TCP connection whose bytes are checked, and how long it stands still, for tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

from lab.gateway.pair import Lab
from lab.waiting import PATIENCE

OUTAGE = 1.0
"""Longest time in which a transfer may stall, s."""

_RECEIVE = """
import hashlib, json, socket, sys, time
own = ("", int(sys.argv[1]))
with socket.create_server(own, family=socket.AF_INET6, dualstack_ipv6=True) as server:
    print("listening", flush=True)
    stream, _ = server.accept()
digest, last, gap = hashlib.sha256(), None, 0.0
while data := stream.recv(1 << 16):
    now = time.monotonic()
    gap = max(gap, now - (last or now))
    last = now
    digest.update(data)
print(json.dumps({"digest": digest.hexdigest(), "gap": gap}))
"""

_SEND = """
import hashlib, random, select, socket, sys
to, port, pause, size = sys.argv[1], *map(float, sys.argv[2:])
source, digest, sent = random.Random(7), hashlib.sha256(), 0
with socket.create_connection((to, int(port)), timeout=120) as stream:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
    print("connected", flush=True)
    while sent < size if size else not select.select([sys.stdin], [], [], pause)[0]:
        data = source.randbytes(1 << 14)
        digest.update(data)
        stream.sendall(data)
        sent += len(data)
print(digest.hexdigest())
"""


class Transfer:
    """One TCP connection between branches 1 and 2 of gateways, the bytes of which are checked."""

    def __init__(
        self,
        lab: Lab,
        size: int = 0,
        *,
        to: str = "10.2.0.1",
        port: int = 7,
        pause: float = 0,
        back: bool = False,
        ends: tuple[int, int] = (1, 2),
    ) -> None:
        """Connect and begin to send 16 KiB at a time: so many bytes, or (0) until it is ended.

        With a `pause` after each 16 KiB, s. `ends` are the namespaces of sender and receiver, and
        `to` is an address of the second; with `back` it is the other way round.
        """
        pipe = subprocess.PIPE
        here, there = ends[::-1] if back else ends
        self._receiver = lab.start(there, sys.executable, "-c", _RECEIVE, str(port), stdout=pipe)
        assert self._receiver.stdout
        assert self._receiver.stdout.readline() == "listening\n"
        command = (sys.executable, "-c", _SEND, to, str(port), str(pause), str(size))
        self._sender = lab.start(here, *command, stdin=pipe, stdout=pipe)
        assert self._sender.stdout
        assert self._sender.stdout.readline() == "connected\n"

    def end(self) -> float:
        """Wait until all that was sent has come; the longest time in which nothing came, s.

        Raises:
            AssertionError: something else came than was sent.
        """
        assert self._sender.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self._sender.stdin.write("\n")
            self._sender.stdin.close()
        sent, found = _rest(self._sender), json.loads(_rest(self._receiver))
        assert found["digest"] == sent.strip()
        return float(found["gap"])


def _rest(process: subprocess.Popen[str]) -> str:
    """What a process has still to print; `communicate` loses what was read ahead with a line."""
    assert process.stdout
    text = process.stdout.read()
    process.wait(PATIENCE)
    return text


def send_bytes(lab: Lab, size: int, to: str = "10.2.0.1") -> None:
    """Send bytes from branch 1 to branch 2, and check that the same bytes arrive.

    iperf3 ends a test when the sender has sent all, and not when all has come.
    """
    Transfer(lab, size, to=to).end()
