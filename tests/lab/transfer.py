"""One TCP connection whose bytes are checked, and how long it stands still, for tests."""

from __future__ import annotations

import json
import sys
from typing import Any

OUTAGE = 1.0
"""Seconds in which a transfer may stand still, at most."""

_RECEIVE = """
import hashlib, json, socket, time
with socket.create_server(("", 7)) as server:
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
import hashlib, random, socket, sys, time
source, digest = random.Random(7), hashlib.sha256()
with socket.create_connection((sys.argv[1], 7), timeout=60) as stream:
    print("connected", flush=True)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        data = source.randbytes(1 << 14)
        digest.update(data)
        stream.sendall(data)
print(digest.hexdigest())
"""

RECEIVER = (sys.executable, "-c", _RECEIVE)
"""Takes one connection. Says `listening`, and at the end what `standstill` reads."""


def sender(target: str, seconds: float) -> tuple[str, ...]:
    """Give the command that sends for so long. It says `connected`, and at the end its digest."""
    return (sys.executable, "-c", _SEND, target, str(seconds))


def standstill(sent: str, received: str) -> float:
    """Give the longest time in which nothing came, s, of what both ends said last.

    Raises:
        AssertionError: something else came than was sent.
    """
    found: dict[str, Any] = json.loads(received.splitlines()[-1])
    assert found["digest"] == sent.split()[-1]
    return float(found["gap"])
