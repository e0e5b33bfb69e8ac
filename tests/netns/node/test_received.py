"""What a node received is counted to the byte, even for connections shorter than an interval.

a: e 10.0.0.1/24 --x-- e 10.0.0.2/24 :b        a sends over TCP, b's bytes are counted
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from hawser.driver.local import LocalLab
from hawser.node.base import Received
from hawser.node.netns import namespace
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans.small import pair, whole

pytestmark = pytest.mark.root

DATA = bytes(300_000)


class Rounds(threading.Event):
    """Lets others wait until a periodic reader has read again."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        self._begun.release()
        return super().wait(timeout)

    def read_again(self) -> None:
        while self._begun.acquire(blocking=False):
            pass
        for _ in range(2):  # the reading under way may have begun before
            self._begun.acquire(timeout=60)


def transfer(lab: LocalLab, over: Rounds) -> None:
    """Send over a new connection from a to b, and let the reader see it before it closes."""
    a, b = (lab.nodes[name] for name in "ab")
    address = str(b.plan.interfaces[0].addresses[0].ip)
    with (
        namespace.inside(b.namespace, lambda: socket.create_server((address, 0))) as server,
        namespace.inside(
            a.namespace, lambda: socket.create_connection(server.getsockname())
        ) as client,
    ):
        connection, _ = server.accept()
        with connection, ThreadPoolExecutor(1) as pool:
            sent = pool.submit(client.sendall, DATA)
            left = len(DATA)
            while left:
                left -= len(connection.recv(left))
            sent.result()
            over.read_again()


def test_bytes_in_order_are_counted(deploy: Callable[[NetworkPlan], LocalLab]) -> None:
    lab = deploy(pair(whole()))
    over = Rounds()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lab.nodes["b"].received, over, 0.02)
        try:
            over.read_again()
            transfer(lab, over)
            transfer(lab, over)
        finally:
            over.set()
        found: Sequence[Received] = reading.result()
    assert found[-1].tcp == 2 * len(DATA)
    assert found[-1].ip - found[0].ip > 2 * len(DATA)
    assert len(DATA) in {each.tcp for each in found}
    for earlier, later in itertools.pairwise(found):
        assert earlier.at < later.at
        assert earlier.tcp <= later.tcp
