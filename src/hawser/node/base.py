"""The interface of a node: a machine on which commands run and whose kernel can be changed."""

from __future__ import annotations

import socket as sockets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hawser.node.change import KernelChange


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
    """CPU time of all programs of a node since its creation, including ended ones."""

    cpu_seconds: float
    periods: int
    """Enforcement periods of the CPU quota; 0 without a quota."""
    throttled: int
    """Periods in which programs were throttled."""


@dataclass(frozen=True)
class Received:
    """Data received by a node since its creation."""

    at: float
    """When it was read: seconds of the monotonic clock here."""
    tcp: int
    """Bytes that TCP has for its readers, in order and each once (RFC 4898's ThruOctetsReceived),
    of the connections seen since reading began."""
    ip: int
    """Bytes of all IP packets."""


@dataclass(frozen=True)
class ProcessUsage:
    """Resource usage of one process since its start."""

    cpu_seconds: float
    """User and system time of all its threads."""
    memory: int
    """Resident set now, bytes."""
    memory_peak: int
    """Largest resident set so far, bytes (`VmHWM`, proc(5))."""
    threads: int


@dataclass(frozen=True)
class ThreadTimes:
    """One thread since it started, seconds."""

    run: float
    """On a core."""
    wait: float
    """Runnable, but without a core."""


@dataclass(frozen=True)
class Program:
    """A process of a node."""

    pid: int
    name: str
    """Name of its program, at most 15 characters."""
    threads: Mapping[int, ThreadTimes]
    """By thread id."""


class Process(Protocol):
    """A command that runs in the background on a node."""

    @property
    def pid(self) -> int:
        """Process id on the node."""

    def running(self) -> bool:
        """Whether it has not ended yet."""

    def wait(self) -> int:
        """Wait for its end without a limit, and return its exit code."""

    def kill(self) -> None:
        """End it and its process group at once, as a crash would."""

    def stop(self, grace: float = 2.0) -> Completed:
        """End it: SIGTERM, after `grace` seconds SIGKILL. Idempotent."""


class Node(Protocol):
    """A namespace, a virtual machine, a remote host.

    Commands run there, files are put there and fetched, its kernel is changed by data, and its
    counters are read. Nothing here needs the caller to be on the same machine.
    """

    @property
    def name(self) -> str:
        """Name in the lab."""

    @property
    def directory(self) -> Path:
        """Folder on the node for files of the lab. It goes with the lab."""

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Completed:
        """Run a command to its end, in a folder of the node if one is given.

        Raises:
            NodeError: it failed (with `check`) or took longer than `timeout` seconds.
        """

    def start(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Process:
        """Start a command and return while it runs.

        Its output goes to `log`, a file of the node, or is kept for `stop`.
        """

    def attached(self, command: Sequence[str]) -> list[str]:
        """The command to run here to run a command on the node in this terminal (`exec`)."""

    def put(self, path: Path, content: bytes, mode: int = 0o600) -> None:
        """Write a file of the node, whole or not at all, and make the folders it lies in.

        Raises:
            NodeError: it cannot be written.
        """

    def get(self, path: Path) -> bytes:
        """Read a file of the node.

        Raises:
            NodeError: there is none, or it cannot be read.
        """

    def socket(self, path: Path) -> Path:
        """Where to connect here to reach a Unix socket of the node."""

    def dial(self, address: tuple[str, int], timeout: float) -> sockets.socket:
        """Connect by TCP from the node, to host and port, within `timeout` seconds.

        Raises:
            OSError: nobody answers.
        """

    def apply(self, change: KernelChange) -> float:
        """Change its kernel while traffic flows.

        Returns:
            When the change took effect: seconds of the monotonic clock here.

        Raises:
            NodeError: the kernel refuses; the message begins with the node's name.
        """

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Counters of every interface and shaper class of the node.

        Keys are `IFACE` for interfaces and the class's name for shaper classes; values count
        `packets`, `bytes` and, by cause, `drop_CAUSE` since the lab was made. Interfaces have
        `rx_*` and `tx_*`.
        """

    def usage(self) -> Usage | None:
        """CPU time of its programs; None if the machine does not report it."""

    def programs(self) -> Sequence[Program]:
        """The processes that run on it; none if the machine does not report them."""

    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        """Read what it has received, every `interval` seconds until `over` is set.

        Raises:
            NodeError: it cannot be read.
        """


_LAST_LINES = 8
"""Lines of a program's output that an error shows."""


def tail(text: str) -> str:
    """The last lines of a text, to end an error message with; empty for an empty text."""
    lines = text.strip().splitlines()[-_LAST_LINES:]
    return "".join(f"\n  {line}" for line in lines)
