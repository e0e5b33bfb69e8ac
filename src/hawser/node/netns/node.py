"""A node that is a Linux network namespace."""

from __future__ import annotations

import contextlib
import secrets
import socket as sockets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute

from hawser.node import process
from hawser.node.base import Completed, NodeError, Program, Received, Usage
from hawser.node.change import Device, KernelChange, Settings, ShaperChange
from hawser.node.netns import cgroup, namespace, network, received, sysctl
from hawser.node.netns import command as commands
from hawser.node.netns.command import Background
from hawser.overlay.lab.plan import InterfacePlan, NodePlan, ShaperPlan

T = TypeVar("T")


@dataclass
class NamespaceNode:
    """Implements `hawser.node.base.Node`. All state is in the namespace; nothing is kept open."""

    name: str
    namespace: str
    """Name of the namespace, as `ip netns` lists it."""
    plan: NodePlan
    directory: Path
    """Folder of the lab: this machine's files are the namespace's too."""
    shapers: tuple[ShaperPlan, ...] = ()
    """Shapers of its interfaces."""

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Completed:
        """Run a command to its end, in `folder` if given; see `Node.run`."""
        return commands.run(
            self.namespace, command, timeout=timeout, check=check, env=env, folder=folder
        )

    def start(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Background:
        """Start a command and return while it runs, in `folder` if given; see `Node.start`."""
        return Background(self.namespace, command, log=log, env=env, folder=folder)

    def attached(self, command: Sequence[str]) -> list[str]:
        """The command by way of `ip netns exec`; see `Node.attached`."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """Counters of every interface and shaper class; see `Node.counters`.

        Classes have `drop_queue` (no room), `drop_down` (class taken down) and `backlog` (bytes
        that wait now); interfaces `rx_drop_*` and `tx_drop_*` by the kernel's cause.
        """
        return self._inside(lambda: network.counters(self.shapers))

    def usage(self) -> Usage | None:
        """Processor time of its programs, by its control group; see `Node.usage`."""
        return cgroup.usage(self.namespace)

    def programs(self) -> Sequence[Program]:
        """Processes started by `run` and `start`; see `Node.programs`."""
        return tuple(map(process.program, cgroup.processes(self.namespace)))

    def received(self, over: threading.Event, interval: float) -> Sequence[Received]:
        """Read what it has received until `over` is set; see `Node.received`."""
        return namespace.inside(self.namespace, lambda: received.readings(over, interval))

    def create(self) -> None:
        """Make the namespace, still without interfaces, and its control group."""
        namespace.create(self.namespace)
        cgroup.create(self.namespace, self.plan.cpu, realtime=self.plan.role == "wan")
        self._netlink(lambda route: network.prepare(route, self.plan))

    def connect(self, interface: str, peer: NamespaceNode, peer_interface: str) -> None:
        """Make a cable from an interface of this node to one of another."""
        mine, other = self._interface(interface), peer._interface(peer_interface)
        path = namespace.DIRECTORY / peer.namespace
        self._netlink(lambda route: network.veth(route, mine, other, path))

    def configure(self) -> None:
        """Set addresses, routes, rules, shapers and all else; all interfaces must exist."""
        self._netlink(lambda route: network.configure(route, self.plan, self.shapers))

    def put(self, path: Path, content: bytes, mode: int = 0o600) -> None:
        """Write a file; see `Node.put`."""
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.touch(mode)
            temporary.write_bytes(content)
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise NodeError(f"node {self.name}: {path}: {error.strerror}") from error

    def get(self, path: Path) -> bytes:
        """Read a file; see `Node.get`."""
        try:
            return path.read_bytes()
        except OSError as error:
            raise NodeError(f"node {self.name}: {path}: {error.strerror}") from error

    def socket(self, path: Path) -> Path:
        """The socket itself: a namespace has this machine's files."""
        return path

    def dial(self, address: tuple[str, int], timeout: float) -> sockets.socket:
        """Connect from inside the namespace, to which the socket then belongs; see `Node.dial`."""
        return self._inside(lambda: sockets.create_connection(address, timeout))

    def apply(self, change: KernelChange) -> float:
        """Change the namespace; see `Node.apply`."""
        match change:
            case Settings():
                self._netlink(lambda _: sysctl.write(change.values))
            case Device():
                self._netlink(lambda route: network.attach(route, change))
            case ShaperChange():
                return self._reshape(change)
        return time.monotonic()

    def _reshape(self, change: ShaperChange) -> float:
        """Replace a shaper by another, and remember it for counting its classes."""
        mtu = self._interface(change.after.interface).mtu
        moment = self._netlink(lambda route: network.reshape(route, mtu, change))
        others = tuple(each for each in self.shapers if each != change.before)
        self.shapers = (*others, change.after)
        return moment

    def _netlink(self, work: Callable[[IPRoute], T]) -> T:
        """Do `work` inside the namespace with a route socket.

        Raises:
            NodeError: it failed; the message begins with the node's name.
        """

        def body() -> T:
            with IPRoute() as route:
                return work(route)

        return self._inside(body)

    def _inside(self, work: Callable[[], T]) -> T:
        try:
            return namespace.inside(self.namespace, work)
        except NodeError as error:
            raise NodeError(f"node {self.name}: {error}") from error

    def _interface(self, name: str) -> InterfacePlan:
        return next(plan for plan in self.plan.interfaces if plan.name == name)
