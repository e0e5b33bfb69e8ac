#!/usr/bin/env python3
"""Stands in for `hawserd` where a test is about its supervision: a control socket that says ready.

The name of its TUN device makes it misbehave: with `exit` it ends at once, with `mute` it never
says that it is ready.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

START = time.monotonic()


def main() -> None:
    assert sys.argv[1:3] == ["gateway", "--config"]
    config = json.loads(Path(sys.argv[3]).read_text())
    sys.stdout.write(f"line one\nreading {sys.argv[3]}\n")
    sys.stdout.flush()
    behaviour = config["tun"]["name"]
    if behaviour == "exit":
        sys.exit("field peers[0].id: found 99, expected 1 to 15")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(config["control"])
    listener.listen()
    while True:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(answer(config, ready=behaviour != "mute"))
        connection.close()


def answer(config: dict[str, object], *, ready: bool) -> bytes:
    body = json.dumps(
        {
            "version": "0.0.0",
            "role": "gateway",
            "branch": config["branch"],
            "uptime_s": time.monotonic() - START,
            "ready": ready,
            "peers": [{"branch": "b2", "up": ready, "groups": [{"id": 0, "up": ready}]}],
            "pid": os.getpid(),
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


main()
