"""One machine that can be acted on, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class NodeError(Exception):
    """A command or a kernel request on a node failed."""


@dataclass(frozen=True)
class Completed:
    """A command that ended."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Usage:
    """Processor time of all programs of a node since it was made, those that ended too."""

    cpu_seconds: float
    periods: int
    """Scheduling periods in which a limit held; none without a limit."""
    throttled: int
    """Of these, the ones in which the programs had used their share and had to wait."""


@dataclass(frozen=True)
class Received:
    """What programs of a node have received, since it was made."""

    at: float
    """When it was read: seconds of the monotonic clock here."""
    tcp: int
    """Bytes that TCP has for its readers, in order and each once (RFC 4898's ThruOctetsReceived),
    of the connections seen since reading began."""
    ip: int
    """Bytes of all IP packets."""


class Process(Protocol):
    """A command that runs in the background on a node."""

    @property
    def pid(self) -> int:
        """Process id on the node."""

    def running(self) -> bool:
        """Whether it has not ended yet."""

    def stop(self, grace: float = 2.0) -> Completed:
        """End it: SIGTERM, after `grace` seconds SIGKILL. Idempotent."""


class Node(Protocol):
    """A namespace, a virtual machine, a remote host: where commands run and counters are read."""

    name: str

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end.

        Raises:
            NodeError: it failed (with `check`) or took longer than `timeout` seconds.
        """

    def start(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a command and return while it runs. Output goes to `log`, or is kept for `stop`."""

    def attached(self, command: Sequence[str]) -> list[str]:
        """What to run here so that the command runs on the node, on this terminal (`exec`)."""

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Counters of every interface and shaper class of the node.

        Keys are `IFACE` for interfaces and the class's name for shaper classes; values count
        `packets`, `bytes` and, by cause, `drop_CAUSE` since the lab was made. Interfaces have
        `rx_*` and `tx_*`.
        """

    def usage(self) -> Usage | None:
        """Processor time of its programs; None where the machine does not tell."""

    def processes(self) -> Sequence[int]:
        """Process ids of what runs on it; none where the machine does not tell."""

    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        """Read what it has received, every `interval` seconds until `over` is set.

        Raises:
            NodeError: it cannot be read.
        """
