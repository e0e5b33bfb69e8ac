"""Repeated readings of what programs of a namespace have received.

All functions act in the namespace of the calling thread.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TextIO

from pyroute2 import DiagSocket
from pyroute2.netlink.diag import SS_ALL

from hawser.node.base import NodeError, Received

_INFO = 2
"""Extension INET_DIAG_INFO as a bit of linux/inet_diag.h: `struct tcp_info`."""
_LISTENS = 1 << 10
_COUNTERS = Path("/proc/thread-self/net/netstat")


def readings(over: threading.Event, interval: float) -> list[Received]:
    """Read every `interval` seconds until `over` is set, and once more then.

    Raises:
        NodeError: the kernel does not tell.
    """
    try:
        with _COUNTERS.open(encoding="ascii") as counters, closing(DiagSocket()) as diagnosis:
            diagnosis.bind()
            meter = _Meter(counters, diagnosis)
            found = [meter.read()]
            while not over.wait(interval):
                found.append(meter.read())
            return [*found, meter.read()]
    except (OSError, ValueError, KeyError) as error:
        raise NodeError(f"what was received cannot be read: {error}") from error


class _Meter:
    """Adds up connections, those too that have ended since."""

    def __init__(self, counters: TextIO, diagnosis: DiagSocket) -> None:
        self._counters = counters
        self._diagnosis = diagnosis
        self._connections: dict[int, int] = {}

    def read(self) -> Received:
        self._connections.update(self._tcp())
        return Received(time.monotonic(), sum(self._connections.values()), self._ip())

    def _tcp(self) -> Iterator[tuple[int, int]]:
        """Connections by the kernel's cookie, and what each has received in order."""
        for each in self._diagnosis.get_sock_stats(
            family=socket.AF_INET, states=SS_ALL & ~_LISTENS, extensions=_INFO
        ):
            info = each.get_attr("INET_DIAG_INFO")
            if info is not None:
                yield each["idiag_cookie"], info["tcpi_bytes_received"]

    def _ip(self) -> int:
        self._counters.seek(0)
        lines = [line.split() for line in self._counters if line.startswith("IpExt:")]
        return int(dict(zip(*lines, strict=True))["InOctets"])
