"""Traffic between two nodes of a lab, for tests of the local driver."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hawser.node.netns import NamespaceNode, namespace
from lab.plans.small import FRAME
from lab.waiting import PATIENCE, until

_SO_SNDBUFFORCE = 32
"""Beyond net.core.wmem_max (asm-generic/socket.h)."""


def ping(node: NamespaceNode, target: str, source: str = "") -> int:
    """Send three echoes and count those that are answered.

    Where no answer came within two seconds none is expected; where one came, the others are waited
    for patiently. (The program `ping` waits an interval for them: too short on a slow machine.)
    """
    family, protocol = socket.AF_INET, socket.IPPROTO_ICMP
    if ":" in target:
        family, protocol = socket.AF_INET6, socket.IPPROTO_ICMPV6
    with namespace.inside(
        node.namespace, lambda: socket.socket(family, socket.SOCK_RAW, protocol)
    ) as raw:
        if source:
            raw.bind((source, 0))
        raw.settimeout(0.1)
        identity, answered = secrets.randbelow(1 << 16), set[int]()
        for number in (1, 2, 3):
            with contextlib.suppress(OSError):  # no route or a full buffer: no answer will come
                raw.sendto(_echo(family, identity, number), (target, 0))
            end = time.monotonic() + 0.1
            while number not in answered and time.monotonic() < end:
                answered |= _answered(raw, identity)
        end = time.monotonic() + _NO_ANSWER
        while len(answered) < 3 and time.monotonic() < end:
            if new := _answered(raw, identity) - answered:
                answered |= new
                end = time.monotonic() + _NEXT_ANSWER
    return len(answered)


_NO_ANSWER, _NEXT_ANSWER = 2.0, 10.0
"""Seconds in which an echo is not going to be answered, and in which another one is not."""


def _echo(family: int, identity: int, number: int) -> bytes:
    """An echo request (RFC 792, RFC 4443); in IPv6 the kernel computes the checksum."""
    kind, checksum = 128 << 8, 0
    if family == socket.AF_INET:
        kind = 8 << 8
        total = kind + identity + number
        checksum = ~(total + (total >> 16)) & 0xFFFF
    return struct.pack("!HHHH", kind, checksum, identity, number)


def _answered(raw: socket.socket, identity: int) -> set[int]:
    """Number of the echo that is answered next; none where nothing, or something else, came."""
    try:
        packet = raw.recv(2048)
    except TimeoutError:
        return set()
    if raw.family == socket.AF_INET:
        packet = packet[4 * (packet[0] & 15) :]
    kind, _, _, found, number = struct.unpack_from("!BBHHH", packet)
    reply = 0 if raw.family == socket.AF_INET else 129
    return {number} if (kind, found) == (reply, identity) else set()


@contextmanager
def iperf_server(node: NamespaceNode) -> Iterator[None]:
    server = node.start(["iperf3", "--server", "--one-off", "--forceflush"])
    try:
        until(lambda: "5201" in node.run(["ss", "-ltn"], timeout=60).stdout)
        yield
    finally:
        server.stop()


def tcp(client: NamespaceNode, server: NamespaceNode, target: str, seconds: int) -> dict[str, Any]:
    """The sum of an iperf3 TCP test as the receiver saw it."""
    with iperf_server(server):
        command = ["iperf3", "--json", "-c", target, "-t", str(seconds), "-O", "1"]
        report = json.loads(client.run(command, timeout=seconds + 60).stdout)
    result: dict[str, Any] = report["end"]["sum_received"]
    return result


def transfer(
    client: NamespaceNode, server: NamespaceNode, target: str, size: str = "4M", *options: str
) -> dict[str, Any]:
    """Send bytes over TCP, however long it takes; return iperf3's sum of the receiver.

    Raises:
        NodeError: they did not all come.
    """
    with iperf_server(server):
        command = ["iperf3", "--json", "-c", target, "-n", size, *options]
        report = json.loads(client.run(command, timeout=PATIENCE).stdout)
    result: dict[str, Any] = report["end"]["sum_received"]
    return result


@contextmanager
def udp_flood(
    client: NamespaceNode, server: NamespaceNode, target: str, rate: float, *options: str
) -> Iterator[None]:
    """iperf3 UDP datagrams of 1472 bytes (frames of 1514) at this rate, bits per second."""
    with iperf_server(server):
        command = ["iperf3", "-u", "-c", target, "-b", str(int(rate)), "-l", "1472", "-t", "0"]
        before = _received(server)
        process = client.start([*command, *options])
        try:
            until(lambda: _received(server) > before + 50)
            time.sleep(0.4)  # what fills a queue has come
            yield
        finally:
            process.stop()


def _received(node: NamespaceNode) -> float:
    """Packets that came in by any interface."""
    return sum(counts.get("rx_packets", 0) for counts in node.counters().values())


def received_rate(node: NamespaceNode, interface: str, seconds: float) -> float:
    """Bits a second that come in by an interface, Ethernet headers included."""
    first, start = node.counters()[interface]["rx_bytes"], time.perf_counter()
    time.sleep(seconds)
    last, end = node.counters()[interface]["rx_bytes"], time.perf_counter()
    return (last - first) * 8 / (end - start)


def class_rate(node: NamespaceNode, name: str, seconds: float) -> float:
    """Bits a second that leave by a shaper class."""
    first, start = node.counters()[name]["bytes"], time.perf_counter()
    time.sleep(seconds)
    last, end = node.counters()[name]["bytes"], time.perf_counter()
    return (last - first) * 8 / (end - start)


@contextmanager
def flood(node: NamespaceNode, target: str, priority: int | None, rate: float) -> Iterator[None]:
    """Send full frames at this rate (bit/s), with a priority that names a shaper's class."""
    over = threading.Event()

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            if priority is not None:
                out.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
            start, sent = time.monotonic(), 0
            while not over.wait(0.002):
                due = (time.monotonic() - start) * rate / 8 / FRAME
                while sent < due:
                    out.sendto(bytes(FRAME - 42), (target, 9))
                    sent += 1

    thread = threading.Thread(target=namespace.inside, args=(node.namespace, send))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def burst(node: NamespaceNode, target: str, count: int, payload: int) -> None:
    """Send `count` UDP datagrams as fast as possible, never waiting for buffer space."""

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 64 * 1024 * 1024)
            for _ in range(count):
                out.sendto(bytes(payload), (target, 9))

    namespace.inside(node.namespace, send)
