"""The two kinds of switch make the same of the same packets, byte by byte from the IP header.

   internet --> gw3.a [switch: transit] gw3.a, gw3.b --> internet      frames of all kinds
   gw1's stack  [switch: source]        gw1.a        --> internet      raw IP packets

The labs are those of lab/plans/switches.py: `plan` with Open vSwitch, `bpf` with gateway daemons.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from hawser.control.client import DaemonClient
from hawser.driver import roles
from hawser.driver.base import DriverError
from hawser.driver.local import LocalLab
from hawser.driver.parts import openvswitch
from hawser.node.netns import namespace
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans import switches
from lab.waiting import PATIENCE, until
from worked_example import AGENT, PATHS, address, label

PATH = {1: PATHS[1], 2: (("1b", "3a"), ("3b", "2a"))}
NUMBER = 200
ERRORS = 90
GROUP = 10
_ALL = 3  # ETH_P_ALL
_OUTGOING = 4  # PACKET_OUTGOING

Deploy = Callable[[NetworkPlan], LocalLab]


def lacking() -> str:
    """Why this cannot run; empty when it can."""
    try:
        roles.hawserd()
    except DriverError as error:
        return str(error)
    return openvswitch.absent()


pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking())]


def checksum(data: bytes) -> int:
    """The internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


PLACES = (
    ("3a", "2a", "destination", 1),
    ("3a", "1a", "source", 1),
    ("3b", "2a", "destination", 2),
    ("1a", "3a", "destination", 1),
)
"""What gateway 3 (the first three) and 1 send: from, to, place and member of the label."""
LAST = b"the last one"
"""Payload of a packet that an error quotes."""


def error(chance: random.Random, path: int) -> bytes:
    """A router's error about a packet of a path that gateway 3 or 1 sent; some are damaged."""
    here, there, place, member = PLACES[path]
    sent = packet(chance, address(here), address(there), place, label(member))
    quoted = sent[: chance.choice([28, 28, 40, 48, 548])]
    whole = bytearray(told_of(quoted, here, chance.choice([3, 3, 3, 11, 12])))
    if chance.random() < 0.3:
        whole[chance.randrange(20, len(whole))] ^= 1 << chance.randrange(8)
    return bytes(whole[: chance.choice([len(whole)] * 9 + [chance.randrange(28, len(whole))])])


def last_error(path: int) -> bytes:
    """An error without damage about a UDP packet that holds `LAST`."""
    here, there, place, member = PLACES[path]
    ports = (1024, label(member)) if place == "destination" else (label(member), 1024)
    body = struct.pack("!HHHH", *ports, 8 + len(LAST), 0) + LAST
    return told_of(header(17, 0x4000, 9, address(here), address(there), body), here, 3)


def told_of(quoted: bytes, here: str, kind: int) -> bytes:
    """A router's error to the port that sent what is quoted."""
    head = bytes([kind, 4, 0, 0, 0, 0, 5, 120])
    body = head[:2] + struct.pack("!H", checksum(head + quoted)) + head[4:] + quoted
    return header(1, 0, 60, "203.0.113.1", address(here), body)


def header(
    protocol: int, fragment: int, ttl: int, source: str, destination: str, body: bytes
) -> bytes:
    """An IP packet."""
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 9, fragment, ttl, protocol, 0) + ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + body


def packet(chance: random.Random, source: str, destination: str, place: str, port: int) -> bytes:
    """A TCP or UDP packet with everything else by chance, and good checksums (UDP: or none)."""
    number = chance.choice([6, 17])
    other = chance.randrange(1024, 4096)
    ports = struct.pack("!HH", *((other, port) if place == "destination" else (port, other)))
    payload = chance.randbytes(chance.choice([0, 1, 100, chance.randrange(1400)]))
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    if number == 17:
        head = ports + struct.pack("!HH", 8 + len(payload), 0)
        at, none = 6, chance.random() < 0.3
    else:
        options = bytes(4 * chance.randrange(4))
        offset = (20 + len(options)) // 4 << 4
        values = (chance.getrandbits(32), chance.getrandbits(32), offset, chance.getrandbits(6))
        head = ports + struct.pack("!IIBBHHH", *values, chance.getrandbits(16), 0, 0) + options
        at, none = 16, False
    length = len(head) + len(payload)
    if not none:
        total = checksum(ends + struct.pack("!HH", number, length) + head + payload)
        total = total or 0xFFFF if number == 17 else total
        head = head[:at] + struct.pack("!H", total) + head[at + 2 :]
    tos, ident, ttl = chance.getrandbits(8), chance.randrange(1, 65536), chance.randrange(2, 256)
    ip = struct.pack("!BBHHHBBH", 0x45, tos, 20 + length, ident, 0x4000, ttl, number, 0) + ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + head + payload


def transit(seed: int) -> Iterator[bytes]:
    """Packets of both ways of both paths as they come to gateway 3."""
    chance = random.Random(seed)  # noqa: S311 (the same packets every time)
    ways = [("1a", "3a", "destination", 1), ("2a", "3a", "source", 1)]
    ways += [("1b", "3a", "destination", 2)]
    for _ in range(NUMBER):
        here, there, place, member = chance.choice(ways)
        yield packet(chance, address(here), address(there), place, label(member))


def source(seed: int) -> Iterator[bytes]:
    """Packets as the agent of branch 1 sends them."""
    chance = random.Random(seed)  # noqa: S311 (the same packets every time)
    for _ in range(NUMBER):
        yield packet(chance, address("1a"), address("2a"), "destination", AGENT)


def opened(lab: LocalLab, node: str, family: int, kind: int, protocol: int) -> socket.socket:
    return namespace.inside(
        lab.nodes[node].namespace, lambda: socket.socket(family, kind, protocol)
    )


def silenced(lab: LocalLab) -> None:
    """Stop forwarding in the internet, so that nobody answers."""
    lab.nodes["internet"].run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], timeout=60)


class Arriving:
    """IP packets of these protocols that arrive at interfaces of the internet."""

    def __init__(self, lab: LocalLab, interfaces: Sequence[str], *protocols: int) -> None:
        self._protocols = protocols
        self._sniffers = [sniffer(lab, each) for each in interfaces]
        self._came: list[list[bytes]] = [[] for _ in interfaces]

    def __enter__(self) -> Arriving:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sniffers:
            each.close()

    def so_far(self) -> list[bytes]:
        """All that have come, interface by interface."""
        for made, came in zip(self._sniffers, self._came, strict=True):
            with contextlib.suppress(BlockingIOError):
                while True:
                    frame, where = made.recvfrom(2048)
                    ours = where[2] != _OUTGOING and frame[12:14] == b"\x08\x00"
                    if ours and frame[23] in self._protocols:
                        came.append(frame[14 : 14 + int.from_bytes(frame[16:18])])
        return [each for came in self._came for each in came]

    def wait(self, count: int) -> None:
        """Wait until so many have come."""
        while len(self.so_far()) < count:
            assert select.select(self._sniffers, [], [], PATIENCE)[0], "a packet is lost"


def sniffer(lab: LocalLab, interface: str) -> socket.socket:
    made = opened(lab, "internet", socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    made.bind((interface, 0))
    made.setsockopt(socket.SOL_SOCKET, 33, 16 * 1024 * 1024)  # SO_RCVBUFFORCE
    made.setblocking(False)
    return made


def all_arrive(
    arriving: Arriving, send: Callable[[bytes], object], packets: Iterator[bytes]
) -> list[bytes]:
    """Send packets one by one (a switch may change the order of flows); return what arrives."""
    for number, each in enumerate(packets, 1):
        send(each)
        arriving.wait(number)
    time.sleep(0.3)  # nothing else comes
    return arriving.so_far()


def station(lab: LocalLab, gateway: str = "gw3", port: str = "a") -> bytes:
    """Ethernet address of a gateway's own stack at a port."""
    interface = f"mpa_{'ab'.index(port)}" if lab.plan.switches else port
    show = lab.nodes[gateway].run(["ip", "-o", "link", "show", interface], timeout=60).stdout
    return bytes.fromhex(show.split("link/ether ")[1].split()[0].replace(":", ""))


def through_transit(lab: LocalLab) -> list[bytes]:
    """What gateway 3 forwards of the packets, in order."""
    silenced(lab)
    head = station(lab) + bytes.fromhex("0200c6120301") + b"\x08\x00"
    with (
        Arriving(lab, ["gw3-a", "gw3-b"], 6, 17) as arriving,
        opened(lab, "internet", socket.AF_PACKET, socket.SOCK_RAW, 0) as wire,
    ):
        wire.bind(("gw3-a", 0))
        return all_arrive(arriving, lambda each: wire.send(head + each), transit(1))


def from_the_agent(lab: LocalLab) -> list[bytes]:
    """What gateway 1 sends of the packets, in order."""
    silenced(lab)
    with (
        Arriving(lab, ["gw1-a"], 6, 17) as arriving,
        opened(lab, "gw1", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as stack,
    ):
        target = (address("2a"), 0)
        return all_arrive(arriving, lambda each: stack.sendto(each, target), source(2))


def errors(seed: int, paths: list[int]) -> Iterator[bytes]:
    chance = random.Random(seed)  # noqa: S311 (the same packets every time)
    for number in range(ERRORS):
        yield error(chance, paths[number % len(paths)])


def errors_through_transit(lab: LocalLab) -> list[bytes]:
    """What gateway 3 forwards of errors about transit packets, sorted, since two ports are used."""
    with Arriving(lab, ["gw3-a", "gw3-b"], 1) as arriving:
        told(lab, "gw3", errors(3, [0, 1, 2]), arriving.so_far)
        return sorted(map(unnumbered, arriving.so_far()))


def errors_for_the_agent(lab: LocalLab) -> list[bytes]:
    """What gateway 1's own stack sees of errors about what it sent, sorted: threads pass them."""
    stack = opened(lab, "gw1", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    stack.setsockopt(socket.SOL_SOCKET, 33, 1024 * 1024)  # SO_RCVBUFFORCE
    stack.setblocking(False)
    agents = socket.inet_aton(address("2a"))
    seen: list[bytes] = []

    def so_far() -> list[bytes]:
        with contextlib.suppress(BlockingIOError):
            while True:
                each = stack.recv(2048)
                if each[44:48] == agents:  # the stack has the error as it came, too
                    seen.append(unnumbered(each))
        return seen

    with stack:
        told(lab, "gw1", errors(4, [3]), so_far)
        return sorted(so_far())


def told(
    lab: LocalLab, gateway: str, packets: Iterator[bytes], so_far: Callable[[], list[bytes]]
) -> None:
    """Let a router send errors to a gateway; first packets that are none.

    They come in groups, whose last, one of each port, must be forwarded back: by then, all before
    it have been, so however busy the machine is, never more come in a second than are translated.
    """
    silenced(lab)
    stations = {port: station(lab, gateway, port) for port in "ab"}
    second = socket.inet_aton(address(f"{gateway[2:]}b"))
    chance = random.Random(5)  # noqa: S311 (the same packets every time)
    nothing = [chance.randbytes(chance.randrange(60)) for _ in range(20)]
    last = [last_error(path) for path in ((0, 2) if gateway == "gw3" else (3,))]
    rest, wanted = [*nothing, *packets], 0

    def forwarded() -> bool:
        return sum(LAST in each for each in so_far()) == wanted

    with opened(lab, "internet", socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        while rest:
            for each in (*rest[:GROUP], *last):
                port = "b" if each[16:20] == second else "a"
                frame = stations[port] + bytes.fromhex("0200c6120301") + b"\x08\x00" + each
                wire.sendto(frame, (f"{gateway}-{port}", 0))
            rest, wanted = rest[GROUP:], wanted + len(last)
            until(forwarded, "the last of a group are forwarded back")
            time.sleep(0.2)  # of a hundred in a second the rest are not translated


def unnumbered(packet: bytes) -> bytes:
    """Without identification, which the kernel chooses, and the checksum of the header."""
    assert checksum(packet[:20]) == 0
    return packet[:4] + bytes(2) + packet[6:10] + bytes(2) + packet[12:]


@pytest.mark.parametrize("way", [through_transit, from_the_agent])
def test_both_kinds_make_the_same_packets(
    deploy: Deploy, way: Callable[[LocalLab], list[bytes]]
) -> None:
    openflow, bpf = (way(deploy(plan)) for plan in (switches.plan(3, PATH), switches.bpf(3, PATH)))
    assert len(openflow) == NUMBER
    assert all(checksum(each[:20]) == 0 for each in openflow)
    for mine, other in zip(openflow, bpf, strict=True):
        assert mine.hex() == other.hex()


@pytest.mark.parametrize("way", [errors_through_transit, errors_for_the_agent])
def test_both_kinds_forward_the_same_errors_back(
    deploy: Deploy, way: Callable[[LocalLab], list[bytes]]
) -> None:
    lab = deploy(switches.plan(3, PATH))
    openflow, bpf = way(lab), way(deploy(switches.bpf(3, PATH)))
    assert ERRORS * 0.4 < sum(LAST not in each for each in openflow) < ERRORS * 0.9, (
        "some are damaged"
    )
    for mine, other in zip(openflow, bpf, strict=True):
        assert mine.hex() == other.hex()
    with DaemonClient(lab.daemons["ssc"].control) as client:
        found = client.counters()["switches"]
    counted = next(each["icmp_errors"] for each in found if each["icmp_errors"]["translated"])
    assert counted["translated"] == len(openflow)
    assert counted["malformed"] > 5
    assert lab.daemons["ssc"].restarts == 0
