"""One TCP transfer whose ends pause after each piece: a program that is slow, not a processor.

paced_tcp.py receive <port> <seconds> <bytes> <pause>
paced_tcp.py send <address> <port> <seconds> <bytes> <pause>

The bytes are those of a piece, the pause is in seconds. The receiver serves one connection.
"""

import contextlib
import socket
import sys
import time


def receive(port: int, seconds: float, piece: int, pause: float) -> None:
    with socket.create_server(("", port)) as server:
        connection, _ = server.accept()
        over = time.monotonic() + seconds
        with connection:
            while time.monotonic() < over and connection.recv(piece):
                time.sleep(pause)


def send(address: str, port: int, seconds: float, piece: int, pause: float) -> None:
    over = time.monotonic() + seconds
    with socket.create_connection((address, port)) as connection:
        connection.settimeout(0.5)
        while time.monotonic() < over:
            with contextlib.suppress(TimeoutError):
                connection.send(bytes(piece))
            time.sleep(pause)


if sys.argv[1] == "receive":
    receive(int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
else:
    send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
