"""What lies behind gateway 2 besides its LAN, and servers that say `welcome`.

 gateway 2
+--------------+     +-----------------+
|         away |-----| 5: 172.16.0.9   |  management
+--------------+     |    203.0.113.9  |  the internet
  172.16.0.1         +-----------------+
"""

from __future__ import annotations

import sys

from lab.gateway.pair import Lab

AWAY = 5

SERVE = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("listens", flush=True)
while True:
    stream, _ = server.accept()
    stream.sendall(b"welcome")
    stream.close()
"""
"""Serves TCP at a port."""


def networks(lab: Lab) -> None:
    """Put both networks behind gateway 2."""
    lab.namespace(AWAY)
    lab.cable((2, "away", "172.16.0.1/24"), (AWAY, "away", "172.16.0.9/24"))
    lab.at(AWAY, "ip", "address", "add", "203.0.113.9/24", "dev", "away")
    lab.at(AWAY, "ip", "route", "add", "default", "via", "172.16.0.1")
    lab.at(2, "ip", "route", "add", "203.0.113.0/24", "dev", "away")


def serve(lab: Lab, number: int, program: str, *arguments: str) -> None:
    """Run a server that prints `listens` once it does."""
    server = lab.start(number, sys.executable, "-c", program, *arguments, stdout=-1)
    assert server.stdout
    assert server.stdout.readline() == "listens\n"
