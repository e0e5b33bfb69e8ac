"""Waiting for a tunnel."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from hawser.driver.base import DriverError
from hawser.node.base import Node, Process, tail

_WITHIN = 10.0
_POLL = 0.02


def listening(path: Path) -> Callable[[], bool]:
    """Give what says whether somebody listens at a socket; its file is there a moment before."""

    def is_so() -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(path)) == 0

    return is_so


def until(
    condition: Callable[[], bool], what: str, process: Process, node: Node, log: Path
) -> None:
    """Wait until something is so.

    Raises:
        DriverError: the process ended, or it took too long; with the end of its log.
    """
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if not process.running() or time.monotonic() > deadline:
            said = tail(node.get(log).decode(errors="replace"))
            raise DriverError(f"tunnel: {what} did not happen{said}")
        time.sleep(_POLL)
