"""`hawserd function firewall` in a chain: its rules, its state, and its REST interface.

client 10.0.0.1 ---- sff ---- 10.0.0.2 server, UDP echo on 7001 and 7002
                      |
                     f1: firewall         (drawn in lab/function/chain.py)
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from lab.function.chain import Chain, Node
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

_TOKEN = "a-token-of-this-test"  # noqa: S105 - of no other use
_TALK = """
import socket, sys
port, patience = int(sys.argv[1]), float(sys.argv[2])
s = socket.socket(type=socket.SOCK_DGRAM)
s.settimeout(patience)
s.connect(("10.0.0.2", port))
s.send(b"x")
try:
    s.recv(9)
except TimeoutError:
    sys.exit(1)
"""
_ECHO = """
import socket, select
sockets = []
for port in (7001, 7002):
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.bind(("10.0.0.2", port))
    sockets.append(s)
print("ready", flush=True)
while True:
    for s in select.select(sockets, [], [])[0]:
        data, peer = s.recvfrom(9)
        s.sendto(data, peer)
"""


class _Echoes:
    """A server that echoes on ports 7001 and 7002."""

    def __init__(self, chain: Chain) -> None:
        inside = ["ip", "netns", "exec", chain.namespace("server")]
        command = [*inside, "python3", "-c", _ECHO]
        self._chain = chain
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def __enter__(self) -> _Echoes:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def answers(self, port: int) -> bool:
        """Whether an answer comes, however late."""
        return self._answer(port, PATIENCE)

    def denied(self, firewall: Node, port: int) -> bool:
        """Whether the firewall drops and counts what is sent, and no answer comes."""
        before = firewall.counters()["drops"]["denied"]
        answer = self._answer(port, 0.5)
        until(lambda: answer or firewall.counters()["drops"]["denied"] > before)
        return not answer

    def _answer(self, port: int, patience: float) -> bool:
        inside = ["ip", "netns", "exec", self._chain.namespace("client")]
        talk = [*inside, "python3", "-c", _TALK, str(port), str(patience)]
        return subprocess.run(talk, check=False).returncode == 0


def _deny(port: int) -> dict[str, Any]:
    return {"protocol": 17, "destination_ports": [port, port], "action": "deny"}


def test_rules_are_in_force_at_once_and_survive_a_restart() -> None:
    with Chain(1, start=False) as chain:
        firewall = chain.firewall(1)
        chain.start()
        with _Echoes(chain) as echoes:
            assert echoes.answers(7001)
            status, rule = firewall.call("POST", "/v1/rules", _deny(7001))
            assert status == 201, rule
            assert echoes.denied(firewall, 7001)
            assert echoes.answers(7002)
            firewall.stop(9)
            firewall.start()
            assert echoes.denied(firewall, 7001)
            assert echoes.answers(7002)
            assert firewall.counters()["drops"]["denied"] == 1
            assert firewall.call("DELETE", f"/v1/rules/{rule['id']}")[0] == 204
            assert echoes.answers(7001)
            assert firewall.call("DELETE", f"/v1/rules/{rule['id']}")[0] == 404


def test_rules_are_replaced_together_or_not_at_all() -> None:
    with Chain(1, start=False) as chain:
        firewall = chain.firewall(1)
        chain.start()
        with _Echoes(chain) as echoes:
            assert firewall.call("PUT", "/v1/rules", {"rules": [_deny(7001)]})[0] == 200
            wrong = [_deny(7002), {"source": "10.0.0.300", "action": "deny"}]
            status, answer = firewall.call("PUT", "/v1/rules", {"rules": wrong})
            assert status == 422
            assert answer["errors"][0]["field"] == "rules[1].source"
            assert echoes.denied(firewall, 7001)
            assert echoes.answers(7002)


def test_whoever_was_allowed_to_begin_gets_answers() -> None:
    rule = {"source": "10.0.0.1/32", "action": "allow"}
    for remember, expected in (({"idle_s": 60}, True), (None, False)):
        with Chain(1, start=False) as chain:
            firewall = chain.firewall(1, otherwise="deny", remember=remember)
            chain.start()
            assert firewall.call("POST", "/v1/rules", rule)[0] == 201
            with _Echoes(chain) as echoes:
                if expected:
                    assert echoes.answers(7001)
                else:
                    assert echoes.denied(firewall, 7001)


def test_the_rest_api_wants_its_token() -> None:
    with Chain(1, start=False) as chain:
        token = chain.folder / "token"
        token.write_text(_TOKEN + "\n")
        rest = {"listen": "127.0.0.1:8080", "token_file": str(token)}
        firewall = chain.firewall(1, rest=rest)
        chain.at("f1", "ip", "link", "set", "lo", "up")
        firewall.start()
        body = json.dumps(_deny(7001))
        curl = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "-d", body]
        url = ["-H", "content-type: application/json", "http://127.0.0.1:8080/v1/rules"]
        for header, expected in (
            ([], "401"),
            (["-H", "authorization: Bearer wrong"], "401"),
            (["-H", f"authorization: Bearer {_TOKEN}"], "201"),
        ):
            assert chain.at("f1", *curl, *header, *url) == expected
        assert len(firewall.call("GET", "/v1/rules")[1]["rules"]) == 1


def test_a_hundred_thousand_rules() -> None:
    with Chain(1, start=False) as chain:
        firewall = chain.firewall(1)
        chain.start()
        rules: list[dict[str, Any]] = [
            {
                "source": f"10.{1 + n // 65536}.{n // 256 % 256}.{n % 256}/32",
                "destination_ports": [n % 1000, n % 1000 + 100],
                "action": "deny",
            }
            for n in range(100_000)
        ]
        status, answer = firewall.call("PUT", "/v1/rules", {"rules": [*rules, _deny(7001)]})
        assert status == 200, answer
        with _Echoes(chain) as echoes:
            assert echoes.denied(firewall, 7001)
            assert echoes.answers(7002)
