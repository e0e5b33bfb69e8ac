"""Ports that servers of a measurement listen on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hawser.node.base import Node, Process
from hawser.probe.base import ProbeError

_PORTS = range(5201, 5301)
_READY_SECONDS = 5.0
_POLL_SECONDS = 0.02

Sleep = Callable[[float], None]


_CHOOSING = threading.Lock()


@contextmanager
def choosing(node: Node, wanted: int | None = None) -> Iterator[int]:
    """A free port, which no other measurement takes before the block ends.

    Args:
        node: where it is free.
        wanted: the port to take if it is free; None leaves the choice.

    Raises:
        ProbeError: it is taken, or see `free_port`.
    """
    with _CHOOSING:
        if wanted is None:
            yield free_port(node)
        elif wanted in listening(node):
            raise ProbeError(f"port {wanted} of {node.name} is taken")
        else:
            yield wanted


def free_port(node: Node) -> int:
    """A TCP and UDP port of the node that nothing listens on.

    Raises:
        ProbeError: all hundred of the range are taken.
    """
    taken = listening(node)
    for port in _PORTS:
        if port not in taken:
            return port
    raise ProbeError(f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free on {node.name}")


def listening(node: Node) -> set[int]:
    """Ports of a node that something listens on, TCP or UDP.

    Raises:
        NodeError: `ss` could not be run.
    """
    table = node.run(["ss", "-Hltun"], timeout=10).stdout
    return {int(columns[4].rpartition(":")[2]) for columns in map(str.split, table.splitlines())}


def until_listening(node: Node, server: Process, port: int, sleep: Sleep) -> None:
    """Wait until a server takes connections.

    Raises:
        ProbeError: it ended, or took too long; with what it said last.
    """
    wait(lambda: port in listening(node) or not server.running(), sleep)
    if port not in listening(node):
        done = server.stop()
        said = (done.stderr or done.stdout).strip()[-200:] or "it said nothing"
        raise ProbeError(f"its server on {node.name} did not get ready: {said}")


def wait(condition: Callable[[], bool], sleep: Sleep, seconds: float = _READY_SECONDS) -> None:
    """Wait until something is so, at most so many seconds."""
    for _ in range(int(seconds / _POLL_SECONDS)):
        if condition():
            return
        sleep(_POLL_SECONDS)
