"""Where a controller listens."""

from __future__ import annotations

import contextlib
import socket

_ANY, _ANY6 = "0.0.0.0", "::"  # noqa: S104 (what a configuration may ask for)


def hosts(host: str) -> tuple[str, ...]:
    """Give the addresses of a configured host: `::` means all of both versions of IP.

    They are two sockets, so that clients of IPv4 have addresses of IPv4.
    """
    return (_ANY6, _ANY) if host == _ANY6 else (host,)


def bound(host: str, port: int) -> list[socket.socket]:
    """Give sockets that listen at all addresses of a host.

    Raises:
        OSError: the name has no address, or an address cannot be used.
    """
    found = {
        address: family
        for each in hosts(host)
        for family, *_, address in socket.getaddrinfo(each, port, type=socket.SOCK_STREAM)
    }
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(address, family=family))
            for address, family in found.items()
        ]
        stack.pop_all()
    return sockets
