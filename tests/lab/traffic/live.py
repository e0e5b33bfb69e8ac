"""A TCP connection that sends until it is told to end, and whose progress can be seen meanwhile.

A socket belongs to the namespace in which it is made, whichever thread uses it afterwards.
"""

from __future__ import annotations

import hashlib
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from hawser.node.netns import NamespaceNode, namespace
from lab.waiting import PATIENCE, until

_BLOCK = 1 << 14


class LiveTransfer:
    """What one connection has carried so far."""

    def __init__(self, pause: float) -> None:
        self.received = 0
        """Bytes."""
        self.standstill = 0.0
        """Longest time in which nothing came, s."""
        self._pause = pause
        self._over = Event()

    def carry(self, size: int) -> None:
        """Wait until this number of further bytes has arrived."""
        start = self.received
        until(lambda: self.received >= start + size, f"{size} more bytes have come")

    def end(self) -> None:
        """Let the sender end after its block."""
        self._over.set()

    def send(self, sender: socket.socket) -> tuple[int, bytes]:
        """Send until it is to end; give how many bytes that was, and their digest."""
        source, digest, size = random.Random(7), hashlib.sha256(), 0  # noqa: S311 (content)
        with sender:
            while not self._over.wait(self._pause):
                data = source.randbytes(_BLOCK)
                sender.sendall(data)
                digest.update(data)
                size += len(data)
        return size, digest.digest()

    def receive(self, receiver: socket.socket) -> bytes:
        """Receive everything; return its digest."""
        digest, last = hashlib.sha256(), None
        with receiver:
            while data := receiver.recv(1 << 16):
                now = time.monotonic()
                self.standstill = max(self.standstill, now - (last or now))
                last = now
                digest.update(data)
                self.received += len(data)
        return digest.digest()


@contextmanager
def live_transfer(
    client: NamespaceNode,
    server: NamespaceNode,
    target: str,
    *,
    source: str = "",
    port: int = 0,
    pause: float = 0,
) -> Iterator[LiveTransfer]:
    """Send 16 KiB at a time, with a pause after each (s), to the end of the block.

    Then wait until all has come.

    Raises:
        AssertionError: something else came than was sent.
        OSError: the connection broke, or stood still for `PATIENCE`.
    """
    listener = namespace.inside(server.namespace, lambda: socket.create_server(("", port)))
    with listener:
        place, local = (target, listener.getsockname()[1]), (source, 0) if source else None
        sender = namespace.inside(
            client.namespace, lambda: socket.create_connection(place, PATIENCE, local)
        )
        listener.settimeout(PATIENCE)
        receiver, _ = listener.accept()
    receiver.settimeout(PATIENCE)
    going = LiveTransfer(pause)
    with ThreadPoolExecutor(2) as pool:
        sending, receiving = pool.submit(going.send, sender), pool.submit(going.receive, receiver)
        try:
            yield going
        finally:
            going.end()
    assert (going.received, receiving.result()) == sending.result()
