"""Revoked certificates keep a peer out, and replayed packets change nothing.

 b1 10.1.0.1                                b2 10.2.0.1
+---------------------------+              +---------------------+
| wa 198.18.0.1             |--------------| wa 198.18.0.2       |
|  ^ records and sends      |  encrypted   +---------------------+
|    again what b1 sent     |
+---------------------------+
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.encrypted import encrypted_pair, fingerprint, put
from lab.gateway.pair import Lab, pki
from lab.waiting import until

pytestmark = pytest.mark.root

REPLAY = """
import socket, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("wa", 0))
link.settimeout(120)
print("listens", flush=True)
frames = []
while len(frames) < 20:
    frame, (_, _, kind, *_) = link.recvfrom(2000)
    if kind == socket.PACKET_OUTGOING and frame[12:14] == b"\\x08\\0" and frame[23] == 17:
        frames.append(frame)
print("recorded", flush=True)
sys.stdin.readline()
for frame in frames * 5:
    link.send(frame)
print("sent", flush=True)
"""
"""Records what a gateway sends, and replays it on request."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab.direct()


@pytest.mark.parametrize("kind", ["quic", "mptcp"])
def test_who_is_revoked_is_out_and_stays_out(lab: Lab, kind: str) -> None:
    """By a list and by a file; admitted again once removed from it."""
    one, two, files = encrypted_pair(lab, kind)
    shown = fingerprint(files["b1"]["certificate"])
    listed = lab.folder / "revoked.txt"
    listed.write_text(f"# lost with a van\n{shown.replace(':', '').lower()}  # b1\n")
    for gone in ({"revoked": [shown]}, {"revoked_file": str(listed)}):
        assert put(two, **gone)[0] == 200
        until(lambda: not two.up(), "the connection has ended")
        until(lambda: not one.up(), "the other end knows")
        time.sleep(1)
        assert not two.up()
        assert "0 received" in lab.at(1, "ping", "-c1", "-W1", "10.2.0.1", check=False)
        assert put(two)[0] == 200
        until(lambda: one.up() and two.up(), "both are up again")
    assert len(lab.ping(5)) == 5


@pytest.mark.parametrize("kind", ["quic", "mptcp"])
def test_another_authority_ends_the_sessions_of_the_old_one(lab: Lab, kind: str) -> None:
    one, two, files = encrypted_pair(lab, kind)
    other = pki(lab.folder, ["b2"], authority="other")
    assert put(two, ca=other["b2"]["ca"])[0] == 200
    until(lambda: not two.up() and not one.up(), "the connection has ended")
    time.sleep(1)
    assert not two.up()
    assert put(two)[0] == 200
    until(lambda: one.up() and two.up(), "both are up again")
    again = one.get("/v1/status")["peers"][0]["groups"][0]
    assert put(two, ca=files["b1"]["ca"])[0] == 200
    assert one.get("/v1/status")["peers"][0]["groups"][0]["reconnects"] == again["reconnects"]


@pytest.mark.parametrize("kind", ["quic", "mptcp"])
def test_a_branch_that_has_another_number_is_out(lab: Lab, kind: str) -> None:
    one, two, _ = encrypted_pair(lab, kind)
    moved = copy.deepcopy(two.config)
    moved["peers"][0]["id"] = 0
    assert two.ask("PUT", "/v1/config", moved)[0] == 200
    until(lambda: not two.up() and not one.up(), "the session has ended")
    time.sleep(1)
    assert not two.up()
    assert two.ask("PUT", "/v1/config", two.config)[0] == 200
    until(lambda: one.up() and two.up(), "both are up again")


def test_encryption_cannot_be_turned_off(lab: Lab) -> None:
    one, _, _ = encrypted_pair(lab, "mptcp")
    plain = one.config | {"transport": {"kind": "mptcp", "insecure": True}}
    status, text = one.ask("PUT", "/v1/config", plain)
    assert status == 422
    assert [error["field"] for error in json.loads(text)["errors"]] == ["transport.tls"]
    assert one.up()
    assert one.get("/v1/status")["insecure"] is False


def test_what_is_no_fingerprint_is_told_with_its_place(lab: Lab) -> None:
    one, _, files = encrypted_pair(lab, "quic")
    shown = fingerprint(files["b2"]["certificate"])
    listed = lab.folder / "revoked.txt"
    listed.write_text(f"{shown}\nxyz\n")
    for wrong, place in (
        ({"revoked": [shown, shown[3:]]}, "transport.tls.revoked[1]"),
        ({"revoked_file": str(listed)}, "transport.tls.revoked_file, line 2"),
        ({"revoked_file": "/nowhere"}, "transport.tls.revoked_file"),
    ):
        status, text = put(one, **wrong)
        assert status == 422
        assert [error["field"] for error in json.loads(text)["errors"]] == [place]
    assert one.up()


def test_replayed_packets_change_nothing(lab: Lab) -> None:
    """Recorded packets are sent again by somebody else: no inner packet results."""
    for number in (1, 2):  # or the kernel sends something of its own by the TUN device
        lab.at(number, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    one, two, _ = encrypted_pair(lab, "quic")
    # so that packets are recorded with their checksums
    lab.at(1, "ethtool", "-K", "wa", "tx", "off")
    replay = lab.start(
        1, sys.executable, "-c", REPLAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert replay.stdout
    assert replay.stdin
    assert replay.stdout.readline() == "listens\n"
    assert len(lab.ping(40)) == 40
    assert replay.stdout.readline() == "recorded\n"

    def seen() -> tuple[object, ...]:
        counters = two.get("/v1/counters")
        group = counters["peers"][0]["groups"][0]
        what = (group["received"], group["order"], group["drops"], group["ends"])
        return (*what, counters["tun"], counters["unauthenticated"])

    def came() -> int:
        """Datagrams that the kernel has handed to sockets of gateway 2."""
        lines = [line.split() for line in lab.at(2, "cat", "/proc/net/snmp").splitlines()]
        names, values = (line for line in lines if line[0] == "Udp:")
        return int(values[names.index("InDatagrams")])

    before, came_before = seen(), came()
    replay.stdin.write("\n")
    replay.stdin.flush()
    assert replay.stdout.readline() == "sent\n"
    until(lambda: came() - came_before >= 100, "the gateway has read them all")
    time.sleep(0.3)
    assert seen() == before
    assert one.up()
    assert two.up()
    assert len(lab.ping(5)) == 5
