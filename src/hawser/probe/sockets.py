"""What the sockets of a node say of who waits for whom: limits of TCP connections, lost datagrams.

The kernel keeps account of why a TCP connection that has data to send does not send it (tcp_info's
busy, rwnd_limited and sndbuf_limited times, Linux 4.10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hawser.node.base import Node

_TIME = re.compile(r"\b(busy|rwnd_limited|sndbuf_limited):(\d+(?:\.\d+)?)ms")
_SENT = re.compile(r"\bbytes_sent:(\d+)")
_RECEIVED = re.compile(r"\bbytes_received:(\d+)")
_MEMORY = re.compile(r"\bskmem:\(r(\d+),rb(\d+),")
_LEAST_BYTES = 100_000
"""Of a connection that counts; others carry control."""


@dataclass(frozen=True)
class Connection:
    """One TCP connection at the side that sends; milliseconds since it began."""

    busy: float
    """While it had data to send or to be acknowledged."""
    receive_window: float
    """Of this: while the receiver's window was full."""
    send_buffer: float
    """Of this: while the sender's own buffer was too small."""


@dataclass(frozen=True)
class Sockets:
    """The TCP connections of a node that carry data, by their two ends."""

    sending: Mapping[str, Connection]
    receiving: Mapping[str, float]
    """Share of the receive buffer that holds unread data."""


def connections(node: Node) -> Sockets:
    """TCP connections of a node.

    Raises:
        NodeError: `ss` could not be run.
    """
    text = node.run(["ss", "-tinmOH"], timeout=10).stdout
    return Sockets(parse(text), unread(text))


def parse(text: str) -> dict[str, Connection]:
    """Read what `ss -tinmOH` says of connections that send, a line each."""
    found = {}
    for line in text.splitlines():
        columns, sent = line.split(), _SENT.search(line)
        if len(columns) < 5 or sent is None or int(sent[1]) < _LEAST_BYTES:
            continue
        times = {name: float(ms) for name, ms in _TIME.findall(line)}
        found[f"{columns[3]} {columns[4]}"] = Connection(
            times.get("busy", 0.0),
            times.get("rwnd_limited", 0.0),
            times.get("sndbuf_limited", 0.0),
        )
    return found


def unread(text: str) -> dict[str, float]:
    """Read what `ss -tinmOH` says of connections that receive."""
    found = {}
    for line in text.splitlines():
        columns, received, memory = line.split(), _RECEIVED.search(line), _MEMORY.search(line)
        if len(columns) < 5 or received is None or memory is None or not int(memory[2]):
            continue
        if int(received[1]) >= _LEAST_BYTES:
            found[f"{columns[3]} {columns[4]}"] = int(memory[1]) / int(memory[2])
    return found
