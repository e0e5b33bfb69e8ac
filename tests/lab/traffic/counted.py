"""Known numbers of packets and bytes between nodes, and the limits that the kernel keeps.

A socket belongs to the namespace in which it is made, whichever thread uses it afterwards.
"""

from __future__ import annotations

import hashlib
import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from hawser.node.netns import NamespaceNode, htb, namespace
from lab.plans.small import FRAME
from lab.waiting import PATIENCE

DISCARD = 9
"""Port of the discard service (RFC 863)."""
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
"""Beyond net.core.wmem_max and rmem_max (asm-generic/socket.h)."""
_ROOM = 64 * 1024 * 1024
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}


def deliver(
    client: NamespaceNode, server: NamespaceNode, target: str, size: int, source: str = ""
) -> None:
    """Send `size` bytes over one TCP connection, however long it takes.

    Raises:
        AssertionError: other bytes arrived than were sent.
    """
    deliver_between(client.namespace, server.namespace, target, size, source=source)


def deliver_between(
    client: str, server: str, target: str, size: int, *, source: str = "", port: int = 0
) -> str:
    """Send `size` bytes over one TCP connection between namespaces, however long it takes.

    Returns:
        The address that the connection comes from, as the server sees it.

    Raises:
        AssertionError: other bytes arrived than were sent.
    """
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    listener = namespace.inside(server, lambda: socket.create_server(("", port), family=family))
    with listener:
        place = (target, listener.getsockname()[1])
        local = (source, 0) if source else None
        sender = namespace.inside(client, lambda: socket.create_connection(place, PATIENCE, local))
        listener.settimeout(PATIENCE)
        receiver, peer = listener.accept()
    data = random.Random(size).randbytes(size)  # noqa: S311 (content, not a secret)
    receiver.settimeout(PATIENCE)
    with receiver, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(_send_all, sender, data)
        digest, count = hashlib.sha256(), 0
        while part := receiver.recv(1 << 16):
            digest.update(part)
            count += len(part)
        sent.result()
    assert count == size
    assert digest.digest() == hashlib.sha256(data).digest()
    return str(peer[0])


def _send_all(sender: socket.socket, data: bytes) -> None:
    with sender:
        sender.sendall(data)


def send(
    node: NamespaceNode,
    target: str,
    payloads: Sequence[bytes],
    *,
    source: str = "",
    priority: int | None = None,
) -> None:
    """Send these UDP datagrams as fast as possible, never waiting for buffer space."""
    with namespace.inside(
        node.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ) as out:
        out.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _ROOM)
        if priority is not None:
            out.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        out.bind((source, 0))
        for payload in payloads:
            out.sendto(payload, (target, DISCARD))


def frames(tag: bytes, count: int, size: int = FRAME) -> list[bytes]:
    """Payloads of `count` UDP datagrams in frames of `size` bytes, each beginning with `tag`."""
    return [tag.ljust(size - 42, b"\0")] * count


@contextmanager
def datagrams(node: NamespaceNode) -> Iterator[Callable[[], list[bytes]]]:
    """Receive UDP datagrams; the result reads all that have arrived so far, in order."""
    taken: list[bytes] = []
    with namespace.inside(
        node.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ) as into:
        into.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
        into.bind(("", DISCARD))
        into.setblocking(False)

        def so_far() -> list[bytes]:
            while True:
                try:
                    taken.append(into.recv(FRAME))
                except BlockingIOError:
                    return taken

        yield so_far


class Limit:
    """Bytes counted from now on, against the most that a rate allows in that time."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._start = time.monotonic()  # before the first reading, and the end after the last
        self._first = read()

    def bytes(self) -> int:
        return self._read() - self._first

    def holds(self, rate: float, burst: int | None = None) -> None:
        """Check that no more came than `rate` bits a second and a burst allow.

        Without `burst` it is that of a class of this rate: HTB lets the frame that exceeds it go.
        """
        counted = self.bytes()
        seconds = time.monotonic() - self._start
        allowed = rate / 8 * seconds + (htb.burst(int(rate / 8)) if burst is None else burst)
        assert counted <= allowed + 2 * FRAME, f"{counted} bytes in {seconds:.3f} s"


def limit(node: NamespaceNode, *names: str) -> Limit:
    """Count the bytes that leave by these shaper classes together."""

    def read() -> int:
        counters = node.counters()
        return sum(counters[name]["bytes"] for name in names)

    return Limit(read)


def kernel_rate(node: NamespaceNode, name: str, *, whole: bool = False) -> float:
    """Rate that the kernel has for a shaper class, or the whole shaper it is in; bits a second."""
    found = re.search(r" ceil (\d+)([KMG]?)bit", _kernel_class(node, name, whole=whole))
    assert found
    return int(found[1]) * _UNITS[found[2]]


def kernel_priority(node: NamespaceNode, name: str) -> int:
    """Priority that the kernel has for a shaper class; the lowest number goes first."""
    found = re.search(r" prio (\d+) ", _kernel_class(node, name, whole=False))
    assert found
    return int(found[1])


def _kernel_class(node: NamespaceNode, name: str, *, whole: bool) -> str:
    """`tc`'s output for a class."""
    interface, classid = next(
        (shaper.interface, htb.WHOLE if whole else leaf.classid)
        for shaper in node.shapers
        for leaf in htb.leaves(shaper)
        if leaf.name == name
    )
    said = node.run(["tc", "class", "show", "dev", interface], timeout=PATIENCE).stdout
    wanted = f"class htb 1:{classid & 0xFFFF:x} "
    return next(line for line in said.splitlines() if line.startswith(wanted))
