"""Where a controller listens: at one address, or at all of both versions of IP."""

from __future__ import annotations

import socket

import pytest

from hawser.controller.listen import bound


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
    return number


def clients(sockets: list[socket.socket], port: int) -> list[str]:
    """Addresses of clients as sockets see them, each reached at an address of its version."""
    found = []
    for each in sockets:
        target = "::1" if each.family is socket.AF_INET6 else "127.0.0.1"
        with socket.create_connection((target, port), 20), each.accept()[0] as accepted:
            found.append(accepted.getpeername()[0])
        each.close()
    return found


def test_all_addresses_are_those_of_both_versions(port: int) -> None:
    assert clients(bound("::", port), port) == ["::1", "127.0.0.1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])  # noqa: S104 (what is tested)
def test_one_address_is_one_socket(host: str, port: int) -> None:
    (listener,) = bound(host, port)
    assert listener.getsockname()[0] == host
    listener.close()


def test_nothing_stays_open_where_one_address_is_taken(port: int) -> None:
    with socket.create_server(("0.0.0.0", port)), pytest.raises(OSError, match="in use"):  # noqa: S104
        bound("::", port)
    for each in bound("::", port):
        each.close()
