"""What must not hurt a gateway: unauthenticated peers, noise, silence, a peer that is gone.

 b1: the peer, and whoever else connects      b2: the gateway under test
+----------------------------------+         +-------------------------------+
| hawser0              10.1.0.1/24 |         | hawser0           10.2.0.1/24 |
| wa    198.18.0.1/24 (and .9)     |---------| wa   198.18.0.2, port 0x2000  |
+----------------------------------+         +-------------------------------+
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gateway.encrypted import encrypted_pair
from lab.gateway.pair import Gateway, Lab, pki
from lab.namespace import run
from lab.traffic.transfer import send_bytes
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

PORT = 0x2000


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


def unauthenticated(gateway: Gateway) -> dict[str, int]:
    """How many unauthenticated connections were refused, by cause."""
    found: dict[str, int] = gateway.get("/v1/counters")["unauthenticated"]
    return found


def test_what_waits_for_a_peer_is_bounded_and_counted(lab: Lab) -> None:
    one, two = lab.pair(queue_bytes=200_000)
    two.stop(9)
    until(lambda: not one.up(), "one sees that the other is gone")
    before = one.memory()[0]
    flood = "import socket; s = socket.socket(2, 2)\n"
    flood += "for _ in range(20000): s.sendto(bytes(1000), ('10.2.0.1', 9))"

    def dropped() -> int:
        # if the gateway does not get the CPU, the kernel drops some before it
        lab.at(1, sys.executable, "-c", flood)
        return int(one.group()["drops"]["peer_down"])

    until(lambda: dropped() > 10_000, "more than the queue holds")
    group = one.get("/v1/status")["peers"][0]["groups"][0]
    assert 150_000 < group["queued_bytes"] <= 200_000
    assert one.memory()[0] - before < 8_000
    two.start()
    until(lambda: one.up() and two.up(), "up again")
    assert len(lab.ping(5)) == 5
    until(lambda: two.group()["received"]["packets"] >= 150, "queued packets have arrived")


NOISE = {
    "noise": "import os; s.sendall(os.urandom(100000))",
    "http": "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')",
    "packet before hello": "s.sendall(b'\\x03\\x00\\x14' + b'\\x45' + bytes(19))",
    "another version": "s.sendall(b'\\x01\\x00\\x0aHWSR\\x02\\x01\\x00\\x00b1')",
    "wrong id": "s.sendall(b'\\x01\\x00\\x0aHWSR\\x01\\x05\\x00\\x00b1')",
    "unknown branch": "s.sendall(b'\\x01\\x00\\x0aHWSR\\x01\\x01\\x00\\x00b7')",
    "unknown group": "s.sendall(b'\\x01\\x00\\x0aHWSR\\x01\\x01\\x07\\x00b1')",
    "nothing": "s.shutdown(1)",
}

_CONNECT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.bind((sys.argv[1], 0))
s.connect(("198.18.0.2", int(sys.argv[2])))
s.settimeout(120)
try:
    exec(sys.argv[3])
    print("answer", s.recv(100))
except ConnectionError as error:
    print("closed", error)
"""


def connect(lab: Lab, script: str, source: str = "198.18.0.1") -> str:
    """Connect to gateway 2 and run a script; return what came back."""
    return lab.at(1, sys.executable, "-c", _CONNECT, source, str(PORT), script)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_noise_on_the_port_ends_only_its_own_connection(lab: Lab, tls: bool) -> None:
    one, two = encrypted_pair(lab)[:2] if tls else lab.pair()
    # on a slow machine the peer may give up its own first connection and dial again
    before = unauthenticated(two)

    def counted() -> dict[str, int]:
        return {cause: n - before[cause] for cause, n in unauthenticated(two).items()}

    for script in NOISE.values():
        said = connect(lab, script)
        assert "closed" in said or "b''" in said or "\\x15" in said, "ended, maybe with a TLS alert"
    until(lambda: sum(counted().values()) >= len(NOISE), "all are counted")
    assert sum(counted().values()) == len(NOISE)
    if not tls:
        assert counted()["malformed"] == 4
        assert counted()["identity_mismatch"] == 3
    assert one.up()
    assert two.up()
    assert two.get("/v1/status")["peers"][0]["groups"][0]["reconnects"] == 0
    assert len(lab.ping(5)) == 5


def test_an_address_that_is_no_peers_is_refused_before_it_speaks(lab: Lab) -> None:
    one, two = lab.pair()
    run("ip", "-n", one.namespace, "addr", "add", "198.18.0.9/24", "dev", "wa")
    hello = "s.sendall(b'\\x01\\x00\\x0aHWSR\\x01\\x01\\x00\\x00b1')"
    said = connect(lab, hello, source="198.18.0.9")
    assert "closed" in said or "b''" in said
    until(lambda: unauthenticated(two)["foreign_address"] > 0, "it is counted")
    assert unauthenticated(two)["foreign_address"] == 1
    assert two.get("/v1/status")["peers"][0]["groups"][0]["reconnects"] == 0


def test_many_that_say_nothing_take_nothing(lab: Lab) -> None:
    _, two = lab.pair()
    before = two.memory()[0]
    many = "o = [socket.create_connection(('198.18.0.2', 0x2000)) for _ in range(200)]; s.close()"
    connect(lab, f"{many}; s = o[-1]")
    refused = "too_many_from_source"
    until(lambda: unauthenticated(two)[refused] >= 200 - 8, "all others are refused")
    assert two.memory()[0] - before < 8 * 192, "few are held, each with its buffers"
    assert two.up()
    assert len(lab.ping(5)) == 5


def test_a_peer_that_falls_silent_is_noticed_and_comes_back(lab: Lab) -> None:
    one, two = lab.pair()
    started = time.monotonic()
    run("ip", "-n", one.namespace, "link", "set", "wa", "down")
    until(lambda: not one.up() and not two.up(), "both notice")
    assert time.monotonic() - started > 2, "not at once: short outages are waited out"
    run("ip", "-n", one.namespace, "link", "set", "wa", "up")
    until(lambda: one.up() and two.up(), "up again")
    assert len(lab.ping(5)) == 5


def test_a_certificate_of_another_authority_is_refused(lab: Lab) -> None:
    ours, theirs = pki(lab.folder, ["b2"]), pki(lab.folder, ["b1"], authority="other")
    _refused(lab, theirs["b1"], ours["b2"])


def test_a_certificate_of_another_branch_is_refused(lab: Lab) -> None:
    made = pki(lab.folder, ["b1", "b2", "b3"])
    _refused(lab, made["b3"], made["b2"])


def test_the_peer_must_have_its_own_name_in_its_certificate(lab: Lab) -> None:
    made = pki(lab.folder, ["b1", "b2", "b3"])
    _refused(lab, made["b1"], made["b3"])


def _refused(lab: Lab, first: dict[str, str], second: dict[str, str]) -> None:
    """The two gateways keep trying and never connect."""
    transport: list[dict[str, Any]] = [{"kind": "mptcp", "tls": tls} for tls in (first, second)]
    one, two = lab.gateway(1, 2, transport=transport[0]), lab.gateway(2, 1, transport=transport[1])
    one.start()
    two.start()

    def refusals() -> int:
        ends, met = one.group()["ends"], unauthenticated(two)
        return int(ends["tls"] + met["tls"] + met["identity_mismatch"])

    until(lambda: refusals() >= 3, "three refusals")
    assert not one.up()
    assert not two.up()
    assert one.group()["received"]["records"] == two.group()["received"]["records"] == 0


_WATCH = """
import select, socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
s.bind(("wa", 0))
print("watching", flush=True)
seen, told = 0, False
while True:
    ready = select.select([s] if told else [s, sys.stdin], [], [], 0 if told else None)[0]
    if s in ready:
        seen += b"A-CLEAR-TEXT" in s.recv(70000)
    elif ready:
        told = True
    else:
        break
print(seen)
"""
"""Counts until it reads from its standard input."""


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_the_wan_sees_clear_text_only_without_tls(lab: Lab, tls: bool) -> None:
    one, two = encrypted_pair(lab)[:2] if tls else lab.pair()
    assert one.get("/v1/status")["peers"][0]["groups"][0]["encrypted"] is tls
    pipe = subprocess.PIPE
    watcher = lab.start(1, sys.executable, "-c", _WATCH, stdin=pipe, stdout=pipe)
    assert watcher.stdout
    assert watcher.stdout.readline() == "watching\n"
    before = two.group()["received"]["packets"]
    send = "import socket; s = socket.socket(2, 2)\n"
    send += "for _ in range(10): s.sendto(b'A-CLEAR-TEXT' * 50, ('10.2.0.1', 9))"
    lab.at(1, sys.executable, "-c", send)
    until(lambda: two.group()["received"]["packets"] >= before + 10, "all have come")
    assert (int(watcher.communicate("\n", timeout=PATIENCE)[0]) > 0) is not tls


def test_tls_carries_bulk(lab: Lab) -> None:
    one, two, _ = encrypted_pair(lab)
    send_bytes(lab, 16 << 20)
    until(lambda: one.group()["sent"] == two.group()["received"], "what was sent has arrived")


def test_openssl_shakes_hands(lab: Lab) -> None:
    """TLS 1.3 with both certificates, against an independent implementation."""
    _, two, _ = encrypted_pair(lab)
    said = lab.at(
        1, "openssl", "s_client", "-connect", f"198.18.0.2:{PORT}", "-tls1_3", "-servername", "b2",
        "-verify_return_error", "-verify_hostname", "b2", "-CAfile", str(lab.folder / "ca.pem"),
        "-cert", str(lab.folder / "ca-b1.pem"), "-key", str(lab.folder / "ca-b1.key"), check=False,
    )  # fmt: skip
    assert "Verify return code: 0 (ok)" in said
    assert "TLSv1.3, Cipher is TLS_AES_" in said
    assert two.up()
