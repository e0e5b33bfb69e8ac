"""A node that runs nothing: commands are recorded, and answered as their programs would."""

from __future__ import annotations

import itertools
import json
import socket as sockets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hawser.node.base import Completed, NodeError, Program, Received, Usage
from hawser.node.change import KernelChange
from hawser.overlay.lab.plan import NetworkPlan, NodePlan
from lab.dry import answers

_STEP = 1000
"""What every counter counts between two readings."""


@dataclass
class DryProcess:
    """A server that ended when its client did."""

    output: Callable[[], str]
    on_stop: Callable[[], None]
    pid: int = 1

    def running(self) -> bool:
        return not self.output()

    def wait(self) -> int:
        return 0

    def kill(self) -> None:
        self.on_stop()

    def stop(self, grace: float = 2.0) -> Completed:
        self.on_stop()
        return Completed(0, self.output(), "")


@dataclass
class DryNode:
    """Implements `hawser.node.base.Node`."""

    name: str
    interfaces: tuple[str, ...]
    classes: tuple[str, ...]
    """Of its shapers."""
    network: answers.Network
    """What all nodes of a lab share: who listens, and what iperf3 has measured."""
    directory: Path = Path("/nonexistent")
    commands: list[tuple[str, ...]] = field(default_factory=list)
    files: dict[Path, bytes] = field(default_factory=dict)
    changes: list[KernelChange] = field(default_factory=list)
    _readings: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    def of(cls, plan: NodePlan, whole: NetworkPlan, network: answers.Network) -> DryNode:
        shapers = (each for each in whole.shapers if each.node == plan.name)
        return cls(
            plan.name,
            tuple(each.name for each in plan.interfaces),
            tuple(each.name for shaper in shapers for each in shaper.classes),
            network,
        )

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Completed:
        self.commands.append(tuple(command))
        words = list(command[2:] if command[:2] == ["mptcpize", "run"] else command)
        answer = _ANSWERS.get(words[0])
        if answer is None:
            raise NodeError(f"node {self.name}: a dry node does not know {words[0]!r}")
        return Completed(0, *answer(self, words))

    def start(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> DryProcess:
        self.commands.append(tuple(command))
        port = self.network.listen(command, self.files)
        return DryProcess(
            lambda: self.network.served.get(port, ""),
            lambda: self.network.listening.discard(port),
        )

    def attached(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def put(self, path: Path, content: bytes, mode: int = 0o600) -> None:
        self.files[path] = content

    def get(self, path: Path) -> bytes:
        if path not in self.files:
            raise NodeError(f"node {self.name}: {path}: No such file or directory")
        return self.files[path]

    def socket(self, path: Path) -> Path:
        return path

    def dial(self, address: tuple[str, int], timeout: float) -> sockets.socket:
        raise ConnectionRefusedError(f"node {self.name}: nobody listens at a dry node's {address}")

    def apply(self, change: KernelChange) -> float:
        self.changes.append(change)
        return time.monotonic()

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        count = _STEP * next(self._readings)
        ways = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes")
        found = {name: dict.fromkeys(ways, count) for name in ("lo", *self.interfaces)}
        quiet = {"drop_queue": 0, "drop_down": 0, "backlog": 0}
        return found | {name: {"packets": count, "bytes": count, **quiet} for name in self.classes}

    def usage(self) -> Usage | None:
        return None

    def programs(self) -> Sequence[Program]:
        return ()

    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        over.wait()
        return ()

    def ss(self, words: list[str]) -> tuple[str, str]:
        listening = sorted(self.network.listening) if "-Hltun" in words else ()
        return "".join(f"tcp LISTEN 0 1 0.0.0.0:{port} 0.0.0.0:*\n" for port in listening), ""

    def nstat(self, words: list[str]) -> tuple[str, str]:
        count = _STEP * next(self._readings)
        names = (name for name in words[3:] if not name.endswith("*"))
        kernel = dict.fromkeys((*names, "MPTcpExtMPCapableSYNACKRX"), count)
        return json.dumps({"kernel": kernel}), ""

    def iperf3(self, words: list[str]) -> tuple[str, str]:
        return self.network.iperf3(words), ""


_ANSWERS: Mapping[str, Callable[[DryNode, list[str]], tuple[str, str]]] = {
    "ss": DryNode.ss,
    "nstat": DryNode.nstat,
    "iperf3": DryNode.iperf3,
    "grep": lambda _, words: ("", ""),
    "ping": lambda _, words: (answers.ping(words), ""),
    "wrk": lambda _, words: ("", answers.wrk(words)),
}
