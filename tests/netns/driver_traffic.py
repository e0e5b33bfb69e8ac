"""Traffic between two nodes of a lab, for tests of the local driver."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hawser.node import namespace
from hawser.node.netns import NamespaceNode

_SO_SNDBUFFORCE = 32
"""Beyond net.core.wmem_max (asm-generic/socket.h)."""


def ping(node: NamespaceNode, target: str, *options: str) -> int:
    """Send three echoes and count those that came back within a second."""
    done = node.run(
        ["ping", "-q", "-c", "3", "-i", "0.02", "-W", "1", *options, target],
        timeout=10,
        check=False,
    )
    return int(done.stdout.split(" received")[0].split()[-1])


@contextmanager
def iperf_server(node: NamespaceNode) -> Iterator[None]:
    server = node.start(["iperf3", "--server", "--one-off", "--forceflush"])
    try:
        wait_for(lambda: "5201" in node.run(["ss", "-ltn"], timeout=5).stdout)
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
            wait_for(lambda: _received(server) > before + 50)
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


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait until something holds.

    Raises:
        AssertionError: it did not come to hold.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)
