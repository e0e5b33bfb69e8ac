"""The two kinds of switch make the same of the same packets, byte by byte from the IP header.

internet --> gw3.a [switch: transit] gw3.a --> internet       frames of all kinds
gw1's stack  [switch: source]        gw1.a --> internet       raw IP packets
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator

import openflow_lab
import pytest

from hawser.control.client import DaemonClient
from hawser.driver import daemon, openvswitch
from hawser.driver.base import DriverError
from hawser.driver.local import LocalLab
from hawser.node import namespace
from hawser.overlay.plan import NetworkPlan
from worked_example import AGENT, PATHS, address, label

PATH = {1: PATHS[1], 2: (("1b", "3a"), ("3b", "2a"))}
NUMBER = 200
ERRORS = 90
_ALL = 3  # ETH_P_ALL
_OUTGOING = 4  # PACKET_OUTGOING

Deploy = Callable[[NetworkPlan], LocalLab]


def lacking() -> str:
    """Why this cannot run; empty when it can."""
    try:
        daemon.binary()
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


def error(chance: random.Random, path: int) -> bytes:
    """A router's error about a packet of a path that gateway 3 or 1 sent; some are damaged."""
    here, there, place, member = (
        ("3a", "2a", "destination", 1),
        ("3a", "1a", "source", 1),
        ("3b", "2a", "destination", 2),
        ("1a", "3a", "destination", 1),
    )[path]
    sent = packet(chance, address(here), address(there), place, label(member))
    quoted = sent[: chance.choice([28, 28, 40, 48, 548])]
    head = bytes([chance.choice([3, 3, 3, 11, 12]), 4, 0, 0, 0, 0, 5, 120])
    body = head[:2] + struct.pack("!H", checksum(head + quoted)) + head[4:] + quoted
    ends = socket.inet_aton("203.0.113.1") + socket.inet_aton(address(here))
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 9, 0, 60, 1, 0) + ends
    whole = bytearray(ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + body)
    if chance.random() < 0.3:
        whole[chance.randrange(20, len(whole))] ^= 1 << chance.randrange(8)
    return bytes(whole[: chance.choice([len(whole)] * 9 + [chance.randrange(28, len(whole))])])


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
    """Let the internet hand nothing on: nobody answers."""
    lab.nodes["internet"].run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], timeout=60)


def arriving(lab: LocalLab, interface: str) -> socket.socket:
    made = opened(lab, "internet", socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    made.bind((interface, 0))
    made.setsockopt(socket.SOL_SOCKET, 33, 16 * 1024 * 1024)  # SO_RCVBUFFORCE
    return made


def taken(sniffer: socket.socket, *protocols: int) -> Iterator[bytes]:
    """IP packets of TCP and UDP (or ICMP) that came in, as they came. Closes the socket."""
    icmp = 1 in protocols
    sniffer.setblocking(False)
    with sniffer, contextlib.suppress(BlockingIOError):
        while True:
            frame, where = sniffer.recvfrom(2048)
            if (
                where[2] != _OUTGOING
                and frame[12:14] == b"\x08\x00"
                and frame[23] in (protocols or (6, 17))
            ):
                whole = frame[14 : 14 + int.from_bytes(frame[16:18])]
                yield unnumbered(whole) if icmp else whole


def station(lab: LocalLab, gateway: str = "gw3", port: str = "a") -> bytes:
    """Ethernet address of a gateway's own stack at a port."""
    interface = f"mpa_{'ab'.index(port)}" if lab.plan.switches else port
    show = lab.nodes[gateway].run(["ip", "-o", "link", "show", interface], timeout=60).stdout
    return bytes.fromhex(show.split("link/ether ")[1].split()[0].replace(":", ""))


def through_transit(lab: LocalLab) -> list[bytes]:
    """What gateway 3 makes of the packets, in order."""
    silenced(lab)
    target = station(lab)
    outputs = [arriving(lab, "gw3-a"), arriving(lab, "gw3-b")]
    with opened(lab, "internet", socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        wire.bind(("gw3-a", 0))
        for each in transit(1):
            wire.send(target + bytes.fromhex("0200c6120301") + b"\x08\x00" + each)
            time.sleep(0.001)
    time.sleep(1)
    return [each for sniffer in outputs for each in taken(sniffer)]


def from_the_agent(lab: LocalLab) -> list[bytes]:
    """What gateway 1 sends of the packets, in order."""
    silenced(lab)
    output = arriving(lab, "gw1-a")
    with opened(lab, "gw1", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as stack:
        for each in source(2):
            stack.sendto(each, (address("2a"), 0))
            time.sleep(0.001)
    time.sleep(1)
    return list(taken(output))


def errors(seed: int, paths: list[int]) -> Iterator[bytes]:
    chance = random.Random(seed)  # noqa: S311 (the same packets every time)
    for number in range(ERRORS):
        yield error(chance, paths[number % len(paths)])


def errors_through_transit(lab: LocalLab) -> list[bytes]:
    """What gateway 3 makes of errors about what it passed on, sorted: two ports take part."""
    outputs = [arriving(lab, "gw3-a"), arriving(lab, "gw3-b")]
    told(lab, "gw3", errors(3, [0, 1, 2]))
    return sorted(each for sniffer in outputs for each in taken(sniffer, 1))


def errors_for_the_agent(lab: LocalLab) -> list[bytes]:
    """What gateway 1's own stack sees of errors about what it sent."""
    stack = opened(lab, "gw1", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    stack.setsockopt(socket.SOL_SOCKET, 33, 1024 * 1024)  # SO_RCVBUFFORCE
    told(lab, "gw1", errors(4, [3]))
    agents = socket.inet_aton(address("2a"))
    seen = []
    stack.setblocking(False)
    with stack, contextlib.suppress(BlockingIOError):
        while True:
            each = stack.recv(2048)
            if each[44:48] == agents:  # the stack has the error as it came, too
                seen.append(unnumbered(each))
    return seen


def told(lab: LocalLab, gateway: str, frames: Iterator[bytes]) -> None:
    """Let a router tell a gateway something; first what is nothing at all."""
    silenced(lab)
    stations = {port: station(lab, gateway, port) for port in "ab"}
    second = socket.inet_aton(address(f"{gateway[2:]}b"))
    chance = random.Random(5)  # noqa: S311 (the same packets every time)
    with opened(lab, "internet", socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        for each in (*(chance.randbytes(chance.randrange(60)) for _ in range(20)), *frames):
            port = "b" if each[16:20] == second else "a"
            frame = stations[port] + bytes.fromhex("0200c6120301") + b"\x08\x00" + each
            wire.sendto(frame, (f"{gateway}-{port}", 0))
            time.sleep(0.012)  # 100 a second are translated
    time.sleep(0.5)


def unnumbered(packet: bytes) -> bytes:
    """Without identification, which the kernel chooses, and the checksum of the header."""
    assert checksum(packet[:20]) == 0
    return packet[:4] + bytes(2) + packet[6:10] + bytes(2) + packet[12:]


@pytest.mark.parametrize("way", [through_transit, from_the_agent])
def test_both_kinds_make_the_same_packets(
    deploy: Deploy, way: Callable[[LocalLab], list[bytes]]
) -> None:
    openflow, bpf = (
        way(deploy(plan)) for plan in (openflow_lab.plan(3, PATH), openflow_lab.bpf(3, PATH))
    )
    assert len(openflow) == NUMBER
    assert all(checksum(each[:20]) == 0 for each in openflow)
    for mine, other in zip(openflow, bpf, strict=True):
        assert mine.hex() == other.hex()


@pytest.mark.parametrize("way", [errors_through_transit, errors_for_the_agent])
def test_both_kinds_lead_the_same_errors_back(
    deploy: Deploy, way: Callable[[LocalLab], list[bytes]]
) -> None:
    lab = deploy(openflow_lab.plan(3, PATH))
    openflow, bpf = way(lab), way(deploy(openflow_lab.bpf(3, PATH)))
    assert ERRORS * 0.4 < len(openflow) < ERRORS * 0.9, "some are damaged"
    for mine, other in zip(openflow, bpf, strict=True):
        assert mine.hex() == other.hex()
    with DaemonClient(lab.daemons["ssc"].control) as client:
        found = client.counters()["switches"]
    counted = next(each["icmp_errors"] for each in found if each["icmp_errors"]["translated"])
    assert counted["translated"] == len(openflow)
    assert counted["malformed"] > 5
    assert lab.daemons["ssc"].restarts == 0
