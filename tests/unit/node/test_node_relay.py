"""A port of the loopback that leads to a port of a node."""

from __future__ import annotations

import socket
import threading

import pytest

from hawser.node.relay import relay


def test_bytes_pass_in_both_directions_until_one_end_closes() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(30)

    def echo() -> None:
        accepted, _ = listener.accept()
        with accepted:
            while data := accepted.recv(1000):
                accepted.sendall(data.upper())
            accepted.sendall(b"END")

    server = threading.Thread(target=echo)
    server.start()
    target = listener.getsockname()
    with relay(0, socket.create_connection, target) as port:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(b"abc")
            assert client.recv(3) == b"ABC"
            client.shutdown(socket.SHUT_WR)
            assert client.recv(10) == b"END"
            assert client.recv(10) == b""
        server.join(30)
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_nobody_behind_it_ends_the_connection() -> None:
    def refuse(_address: tuple[str, int], _timeout: float) -> socket.socket:
        raise ConnectionRefusedError

    with (
        relay(0, refuse, ("192.0.2.1", 1)) as port,
        socket.create_connection(("127.0.0.1", port), 30) as client,
    ):
        assert client.recv(1) == b""
