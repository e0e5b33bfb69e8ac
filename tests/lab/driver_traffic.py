"""Traffic between two nodes of a lab, for tests of the local driver."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from waiting import PATIENCE, until

from hawser.node import namespace
from hawser.node.netns import NamespaceNode

_SO_SNDBUFFORCE = 32
"""Beyond net.core.wmem_max (asm-generic/socket.h)."""


def ping(node: NamespaceNode, target: str, *options: str) -> int:
    """Send three echoes and count those that came back within a second.

    `ping` waits an interval for the last answer once there was one: it is long enough for a
    program that has to wait for a processor.
    """
    done = node.run(
        ["ping", "-q", "-c", "3", "-i", "0.1", "-W", "1", *options, target],
        timeout=60,
        check=False,
    )
    return int(done.stdout.split(" received")[0].split()[-1])


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
    """Send so many bytes over TCP, however long it takes; the receiver's sum, as iperf3 has it.

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
    """iperf3 UDP datagrams of 1472 bytes (frames of 1514) at so many bits a second."""
    with iperf_server(server):
        command = ["iperf3", "-u", "-c", target, "-b", str(int(rate)), "-l", "1472", "-t", "60"]
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


def burst(node: NamespaceNode, target: str, count: int, payload: int) -> None:
    """Send so many UDP datagrams as fast as possible, never waiting for room."""

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 64 * 1024 * 1024)
            for _ in range(count):
                out.sendto(bytes(payload), (target, 9))

    namespace.inside(node.namespace, send)
