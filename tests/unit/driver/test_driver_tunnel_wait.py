"""Waiting for programs of tunnels."""

from __future__ import annotations

import socket
from pathlib import Path

from hawser.driver.parts.tunnels.wait import listening


def test_a_socket_that_nobody_listens_at_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "vici"
    answers = listening(path)
    assert not answers()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert path.is_socket()
        assert not answers()
        server.listen()
        assert answers()
    assert not answers(), "it has ended"
