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


def connections(node: Node) -> Mapping[str, Connection]:
    """TCP connections of a node that send, by their two ends.

    Raises:
        NodeError: `ss` could not be run.
    """
    return parse(node.run(["ss", "-tinOH"], timeout=10).stdout)


def parse(text: str) -> dict[str, Connection]:
    """Read the output of `ss -tinOH`: a connection a line."""
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
