"""Makes a TCP port that only a node reaches available at this machine's loopback."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from functools import partial

Dial = Callable[[tuple[str, int], float], socket.socket]
_DIAL_S = 5.0
_MOST = 64
"""Connections at a time; more are closed at once."""
_CHUNK = 65536


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, port: int, dial: Dial, target: tuple[str, int]) -> None:
        self.dial: Callable[[], socket.socket] = partial(dial, target, _DIAL_S)
        self.free = threading.BoundedSemaphore(_MOST)
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Carry bytes in both directions until one end closes."""
        if not self.server.free.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(OSError), self.server.dial() as there:
                there.settimeout(None)
                back = threading.Thread(target=_pump, args=(there, self.request), daemon=True)
                back.start()
                _pump(self.request, there)
                back.join()
        finally:
            self.server.free.release()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            end.shutdown(how)


@contextlib.contextmanager
def relay(port: int, dial: Dial, target: tuple[str, int]) -> Iterator[int]:
    """Listen at the loopback while the block runs; gives the port.

    Args:
        port: at which to listen; 0 for any that is free.
        dial: connects from the node (`Node.dial`).
        target: host and port to connect to.

    Raises:
        OSError: the port is taken.
    """
    with _Server(port, dial, target) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
