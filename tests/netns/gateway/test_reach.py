"""What a hostile peer reaches: hosts in the local prefixes, and nothing else.

   host 3             gateway 1 (hostile)          gateway 2             host 4
  +-----------+      +--------------------+      +----------------+     +-----------+
  | 10.1.0.2  |------| lan             wa |======| wa         lan |-----| 10.2.0.2  |
  +-----------+      +--------------------+      |    10.2.0.1    |     +-----------+
                                                 |           away |-----+-----------------+
   172.16.0.9: management                        +----------------+     | 5: 172.16.0.9   |
   203.0.113.9: the internet                       172.16.0.1           |    203.0.113.9  |
                                                                        +-----------------+

Gateway 1 claims that all these networks are behind branch 2. Every address has a TCP server on port
22 that says `welcome`; the gateway has another on port 179.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gateway import tcp_proxy
from lab.gateway.away import AWAY, SERVE, networks, serve
from lab.gateway.pair import Gateway, Lab, pki
from lab.waiting import until

pytestmark = pytest.mark.root

CLIENT, SERVER = 3, 4
EVERYTHING = ["10.2.0.0/24", "172.16.0.0/24", "203.0.113.0/24"]
LOCAL = {"local": ["10.2.0.0/24"]}

ASK = """
import socket, sys
try:
    stream = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1.5)
    print(stream.recv(100).decode())
except OSError as error:
    print(error)
"""

ASK_UDP = """
import socket, sys
asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asks.settimeout(1.5)
asks.sendto(b"?", (sys.argv[1], 53))
print(asks.recv(100).decode())
"""

ANSWER_UDP = """
import socket
answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
answers.bind(("", 53))
print("listens", flush=True)
while True:
    _, client = answers.recvfrom(100)
    answers.sendto(b"welcome", client)
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        lab.direct()
        tcp_proxy.hosts(lab)
        networks(lab)
        for number, port in ((2, 22), (2, 179), (SERVER, 22), (AWAY, 22)):
            serve(lab, number, SERVE, str(port))
        yield lab


def gateways(lab: Lab, kind: str, **second: Any) -> tuple[Gateway, Gateway]:  # noqa: ANN401
    """Both gateways, started; `second` are fields of gateway 2."""
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1, **second)
    for gateway in (one, two):
        gateway.config["tun"]["address"] = None
        tls = files[gateway.config["branch"]]
        transport: dict[str, Any] = {"kind": kind.partition("+")[0], "tls": tls}
        if kind == "ipip":
            transport = {"kind": kind, "insecure": True}
        if kind.endswith("+proxy"):
            transport["tcp_proxy"] = {"II": "tcp"}
        gateway.config["transport"] = transport
    one.config["peers"][0]["prefixes"] = EVERYTHING
    for gateway in (one, two):
        gateway.start()
    until(lambda: one.up() and two.up(), "both are up")
    if kind.endswith("+proxy"):
        until(lambda: "daddr" in tcp_proxy.rules(one), "connections are intercepted")
    return one, two


def says(lab: Lab, address: str, port: int = 22) -> str:
    """What a server says to the client behind gateway 1."""
    return lab.at(CLIENT, sys.executable, "-c", ASK, address, str(port)).strip()


@pytest.mark.parametrize("kind", ["quic", "quic+proxy", "mptcp", "ipip"])
def test_a_peer_reaches_local_hosts_and_nothing_else(lab: Lab, kind: str) -> None:
    services = [{"protocol": "tcp", "port": 179}]
    _, two = gateways(lab, kind, **LOCAL, services=services)
    assert says(lab, "10.2.0.2") == "welcome"
    assert says(lab, "10.2.0.1", 179) == "welcome", "an open service of the gateway"
    assert "1 received" in lab.at(CLIENT, "ping", "-c1", "-W9", "10.2.0.1")
    drops = two.group()["drops"]
    assert drops["not_local"] == drops["closed_service"] == 0
    closed = {"10.2.0.1": "closed_service"} | dict.fromkeys(
        ("172.16.0.9", "203.0.113.9", "172.16.0.1"), "not_local"
    )
    for address, cause in closed.items():
        before = two.get("/v1/counters")["peers"][0]["groups"][0]
        assert says(lab, address) != "welcome", address
        after = two.group()
        dropped = after["drops"][cause] - before["drops"][cause]
        refused = after["tcp_proxy"]["refused"] - before["tcp_proxy"]["refused"]
        assert dropped + refused > 0, f"{address} is counted"
    status = two.get("/v1/status")
    assert (status["restricted"], status["insecure"]) == (True, kind == "ipip")


def test_what_the_gateway_asks_is_answered(lab: Lab) -> None:
    """Its own TCP connections and UDP questions to hosts behind the peer."""
    one, _ = gateways(lab, "quic", **LOCAL)
    serve(lab, CLIENT, SERVE, "22")
    serve(lab, CLIENT, ANSWER_UDP)
    assert lab.at(2, sys.executable, "-c", ASK, "10.1.0.2", "22").strip() == "welcome"
    assert lab.at(2, sys.executable, "-c", ASK_UDP, "10.1.0.2").strip() == "welcome"
    assert one.get("/v1/status")["restricted"] is False, "without `local`"


def test_what_is_local_can_be_changed(lab: Lab) -> None:
    _, two = gateways(lab, "mptcp", **LOCAL)
    assert says(lab, "172.16.0.9") != "welcome"
    wider = copy.deepcopy(two.config) | {"local": ["10.2.0.0/24", "172.16.0.0/24"]}
    assert two.ask("PUT", "/v1/config", wider)[0] == 200
    assert says(lab, "172.16.0.9") == "welcome"
    assert says(lab, "172.16.0.1") != "welcome", "another address of the gateway"
    assert two.ask("PUT", "/v1/config", two.config)[0] == 200
    assert says(lab, "172.16.0.9") != "welcome"
