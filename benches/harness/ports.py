"""Free TCP ports, for servers of this machine."""

from __future__ import annotations

import contextlib
import socket


def free_port() -> int:
    """Find two free ports, one after the other; gives the first."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def free_ports(count: int) -> list[int]:
    """Give ports that nobody has."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in made]
