"""The control API of a daemon, without the models of `hawser.control`."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from pathlib import Path

from lab.waiting import PATIENCE


class _UnixConnection(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("hawserd", timeout=PATIENCE)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(control: Path, method: str, path: str, body: object = None) -> tuple[int, str]:
    """One request: its status and body.

    Raises:
        OSError: nobody answers.
    """
    with contextlib.closing(_UnixConnection(control)) as connection:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
