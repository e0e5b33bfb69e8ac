"""One command of a host, from its start to its end, which is never later than wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hawser.node.base import Node, NodeError, Process, tail

_POLL_SECONDS: Final = 0.05
_GRACE_SECONDS: Final = 1.0


@contextmanager
def running(node: Node, command: Sequence[str], folder: Path, log: Path) -> Iterator[Process]:
    """Run a command while the block runs; what it says goes to a file of the node.

    Raises:
        NodeError: it cannot be started.
    """
    node.put(log, b"")
    process = node.start(command, log=log, folder=folder)
    try:
        yield process
    finally:
        process.stop(_GRACE_SECONDS)


def ended(process: Process, until: float, stop: threading.Event) -> bool:
    """Wait for the end of a command, at most until a time of the monotonic clock.

    Returns:
        Whether it ended by itself.
    """
    while process.running():
        if stop.is_set() or time.monotonic() >= until:
            return False
        stop.wait(_POLL_SECONDS)
    return True


def said(node: Node, log: Path, most: int = 20_000) -> bytes:
    """Give the last bytes of what a command said."""
    try:
        return node.get(log)[-most:]
    except NodeError:
        return b""


def last_words(node: Node, log: Path) -> str:
    """Give the last lines of what a command said, to end an error message with."""
    return tail(said(node, log).decode(errors="replace"))


def sent(node: Node) -> int:
    """Packets that a node has sent so far."""
    return sum(each.get("tx_packets", 0) for name, each in node.counters().items() if name != "lo")
