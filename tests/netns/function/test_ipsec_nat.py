"""An IPsec function keeps its tunnel through a NAT that changes ports, and checks what comes out.

  a, hawserd ---- f0 == ESP in UDP == out n in ----- f0 ---- b, charon or hawserd

Drawn in lab/function/ipsec_nat.py. Forged packets are sealed here, with keys from the log of charon
at b.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from lab.function.ipsec import A, B, keys
from lab.function.ipsec_nat import NatTunnel, through_nat
from lab.traffic.counted import deliver
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = pytest.mark.root

BYTES = 1_000_000

# Sends datagrams to port 4500, each from an address and a port.
INJECT = """
import json, socket, struct, sys
target, packets = json.loads(sys.argv[1])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for source, port, payload in packets:
    payload = bytes.fromhex(payload)
    udp = struct.pack("!HHHH", port, 4500, 8 + len(payload), 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                     socket.inet_aton(source), socket.inet_aton(target))
    raw.sendto(ip + udp + payload, (target, 0))
"""


@pytest.fixture(params=[True, False], ids=["charon", "hawserd"])
def tunnel(
    request: pytest.FixtureRequest, deploy: Callable[[NetworkPlan], LocalLab]
) -> Iterator[NatTunnel]:
    with through_nat(deploy, charon_only=request.param) as made:
        yield made


@pytest.fixture
def charon(deploy: Callable[[NetworkPlan], LocalLab]) -> Iterator[NatTunnel]:
    with through_nat(deploy, charon_only=True) as made:
        yield made


def test_the_tunnel_survives_changes_of_the_port(tunnel: NatTunnel) -> None:
    assert tunnel.port() >= 20000, "the port of the key exchange"
    assert ping(tunnel.a, B, A) == 3, "before any packet came from behind the NAT"
    seen = {tunnel.port()}
    for _ in range(3):
        tunnel.rebind()
        assert ping(tunnel.b, A, B) == 3
        assert ping(tunnel.a, B, A) == 3
        deliver(tunnel.b, tunnel.a, A, BYTES, B)
        deliver(tunnel.a, tunnel.b, B, BYTES, A)
        seen.add(tunnel.port())
    assert len(seen) == 4
    assert tunnel.details()["moves"] >= 4
    assert not tunnel.dropped()


def test_keys_are_renewed_after_a_change_of_the_port(tunnel: NatTunnel) -> None:
    for node in ("b", "a"):
        tunnel.rebind()
        if node == "a":
            assert ping(tunnel.b, A, B) == 3, "tells the new port"
        tunnel.rekey(node)
        until(lambda: ping(tunnel.a, B, A) == 3, "the key exchange told the new port")
    assert tunnel.details()["moves"] >= 2


def test_only_what_is_authentic_and_new_moves_the_endpoint(charon: NatTunnel) -> None:
    assert ping(charon.b, A, B) == 3
    port, moves = charon.port(), charon.details()["moves"]
    forge = Forge(charon)
    old, new = (forge.seal(echo(B, A)) for _ in range(2))
    stranger = "10.255.0.9"
    inject(charon, (charon.public, port, new))
    until(lambda: charon.counters().opened.packets >= 4, "the forged one is authentic")
    inject(
        charon,
        (charon.public, 7, new),  # sent again
        (charon.public, 7, new[:-1] + bytes([new[-1] ^ 1])),
        (charon.public, 7, b"\xff"),  # a keepalive
        (charon.public, 7, bytes(40)),  # as if of IKE
        (stranger, 4500, forge.seal(echo(B, A))),
        (charon.public, 7, old),  # authentic, but late
    )
    until(lambda: charon.dropped() == {"replayed": 2, "unknown_source": 1})
    assert (charon.port(), charon.details()["moves"]) == (port, moves)
    assert ping(charon.a, B, A) == 3
    inject(charon, (charon.public, 7, forge.seal(echo(B, A))))
    until(lambda: charon.port() == 7, "an authentic and new one moves it")


def test_what_the_selectors_exclude_does_not_come_out(charon: NatTunnel) -> None:
    forge = Forge(charon)
    before = charon.counters().opened.packets
    forbidden = [("10.99.0.3", A), (B, "10.99.0.3"), (A, B), (B, "127.0.0.1"), (B, charon.public)]
    packets = [forge.seal(echo(source, target)) for source, target in forbidden]
    inject(charon, *((charon.public, charon.port(), packet) for packet in packets))
    until(lambda: charon.dropped() == {"selector": len(forbidden)})
    assert charon.counters().opened.packets == before
    inject(charon, (charon.public, charon.port(), forge.seal(echo(B, A))))
    until(lambda: charon.counters().opened.packets == before + 1)


class Forge:
    """Seals packets as b would, with the key that charon at b logs (RFC 4106)."""

    def __init__(self, tunnel: NatTunnel) -> None:
        associations = tunnel.details()["associations"]
        spi = next(each["spi"] for each in associations if each["direction"] == "in")
        material = keys((tunnel.folder / "charon.log").read_text())[spi]
        self._spi, self._key = int(spi, 16), bytes.fromhex(material)
        self._numbers = count(1000)

    def seal(self, packet: bytes) -> bytes:
        """Seal an IPv4 packet with the next sequence number."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        header = struct.pack("!II", self._spi, next(self._numbers))
        padding = -(len(packet) + 2) % 4
        plain = packet + bytes(range(1, padding + 1)) + bytes([padding, 4])
        key, salt = self._key[:-4], self._key[-4:]
        vector = b"forged" + header[-2:]
        return header + vector + AESGCM(key).encrypt(salt + vector, plain, header)


def echo(source: str, target: str) -> bytes:
    """An ICMP echo request."""
    body = struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0)
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 1, 0) + addresses
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
    return header[:10] + checksum + header[12:] + body


def inject(tunnel: NatTunnel, *packets: tuple[str, int, bytes]) -> None:
    """Send datagrams to the public end, in order, from the NAT's side of the wire."""
    target = str(tunnel.lab.plan.addresses["a"])
    what = [target, [(source, port, payload.hex()) for source, port, payload in packets]]
    tunnel.lab.nodes["n"].run(["python3", "-c", INJECT, json.dumps(what)], timeout=60)
