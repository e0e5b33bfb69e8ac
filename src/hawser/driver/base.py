"""Where nodes come from: a driver turns a plan into a lab, and a lab into nothing again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from hawser.node.base import Node, NodeError
from hawser.overlay.lab.plan import NetworkPlan, Role
from hawser.spec.workflow import Change


class DriverError(NodeError):
    """The lab could not be made or changed."""


class MissingCapability(DriverError):  # noqa: N818 (says what the machine is, not what failed)
    """The machine lacks something the plan needs; the message says how to get it (exit code 3)."""


class Daemon(Protocol):
    """A daemon of the lab, kept running by the driver: one that dies is started again."""

    name: str
    node: str
    role: Role
    control: Path
    """Its control socket."""

    @property
    def pid(self) -> int:
        """Process id now."""

    @property
    def restarts(self) -> int:
        """How often it had to be started again."""


class Lab(Protocol):
    """A deployed plan."""

    name: str
    directory: Path
    plan: NetworkPlan

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        """Daemons by name."""

    def apply(self, element: str, change: Change) -> float:
        """Change a running element (`link:NAME`, `path:NAME`, `port:NODE.PORT`) both ways.

        Returns:
            When it changes: seconds of the monotonic clock.
        """

    def faults(self) -> tuple[str, ...]:
        """Say what of the lab is not as planned, though nobody asked for it."""

    def destroy(self) -> None:
        """Remove everything the lab made. Idempotent."""


class Driver(Protocol):
    """Makes labs."""

    def missing(self, plan: NetworkPlan) -> tuple[str, ...]:
        """What the plan needs and this machine lacks, each with what to do about it."""

    def deploy(self, name: str, plan: NetworkPlan) -> Lab:
        """Make a lab and wait until its daemons are connected.

        Raises:
            MissingCapability: the machine lacks something; nothing was made.
            DriverError: anything else; what was made is removed again.
        """

    def attach(self, name: str) -> Lab:
        """A lab that another process deployed."""

    def labs(self) -> tuple[str, ...]:
        """Names of the labs on this machine, including the remains of crashed ones."""

    def destroy(self, name: str) -> None:
        """Remove a lab by name, also one whose maker was killed at any moment. Idempotent."""
