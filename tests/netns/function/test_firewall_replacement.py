"""A firewall whose rules are replaced all the time, under traffic that every set of rules denies.

client 10.0.0.1 ---- sff ---- 10.0.0.2 server
                      |
                     f1: firewall         (drawn in lab/function/chain.py)
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.function.chain import Chain
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

_DENIED, _ALLOWED = 7001, 7002
_REPLACEMENTS = 1000
_FLOOD = f"""
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
s = socket.socket(type=socket.SOCK_DGRAM)
print("ready", flush=True)
while True:
    for _ in range(19):
        s.sendto(b"x", ("10.0.0.2", {_DENIED}))
    s.sendto(b"x", ("10.0.0.2", {_ALLOWED}))
"""
_COUNT = f"""
import select, signal, socket, sys
counts = {{}}
def tell(*_):
    print(counts[{_DENIED}], counts[{_ALLOWED}])
    sys.exit()
signal.signal(signal.SIGTERM, tell)
sockets = {{}}
for port in ({_DENIED}, {_ALLOWED}):
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.bind(("10.0.0.2", port))
    sockets[s], counts[port] = port, 0
print("ready", flush=True)
while True:
    for s in select.select(list(sockets), [], [])[0]:
        s.recv(9)
        counts[sockets[s]] += 1
"""


def test_no_packet_passes_while_rules_are_replaced() -> None:
    """Neither a half-written set nor the moment between two sets lets a denied packet pass."""
    sets = [_few(), _many()]
    with Chain(1, start=False) as chain:
        firewall = chain.firewall(1, otherwise="allow")
        chain.start()
        assert firewall.call("PUT", "/v1/rules", sets[0])[0] == 200
        with _running(chain, "server", _COUNT) as server:
            with _running(chain, "client", _FLOOD):
                for number in range(_REPLACEMENTS):
                    status, answer = firewall.call("PUT", "/v1/rules", sets[number % 2])
                    assert status == 200, answer
            denied = firewall.counters()["drops"]["denied"]
            until(lambda: firewall.counters()["served"]["packets"] > 0)
            server.terminate()
            told, _ = server.communicate(timeout=PATIENCE)
        passed, allowed = map(int, told.split())
    assert passed == 0
    assert denied > _REPLACEMENTS, "rules were replaced under traffic"
    assert allowed > 0, "what is allowed passes"


def _few() -> dict[str, Any]:
    """One tuple: the port that is allowed, and then nothing."""
    return {"rules": [_rule("allow", _ALLOWED), {"action": "deny"}]}


def _many() -> dict[str, Any]:
    """The port that is denied behind many other tuples, and before all that is allowed."""
    others = [
        {"source": f"10.9.0.0/{length}", "destination": f"10.8.0.0/{other}", "action": "allow"}
        for length in range(28, 32)
        for other in range(24, 32)
    ]
    return {"rules": [*others, _rule("deny", _DENIED), {"action": "allow"}]}


def _rule(action: str, port: int) -> dict[str, Any]:
    return {"protocol": 17, "destination_ports": [port, port], "action": action}


@contextmanager
def _running(chain: Chain, label: str, program: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a namespace, and end it."""
    command = ["ip", "netns", "exec", chain.namespace(label), sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
