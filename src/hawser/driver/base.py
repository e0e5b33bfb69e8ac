"""Where labs come from: a driver has machines, and turns a plan into a lab on them.

    Driver --acquire--> Fleet --deploy(plan)--> Lab: nodes, daemons
      |                 a run                   a trial
    facts, on which the plan depends

Nothing above a driver knows what its machines are. What is planned is what is deployed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hawser.control.client import DaemonClient
from hawser.node.base import Node, NodeError, ProcessUsage
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import NetworkPlan, Role
from hawser.spec.workflow import Change
from hawser.store.manifest import Environment


class DriverError(NodeError):
    """The lab could not be made or changed."""


class MissingCapability(DriverError):  # noqa: N818 (says what the machine is, not what failed)
    """The machine lacks something the plan needs; the message says how to get it (exit code 3)."""


class Daemon(Protocol):
    """A daemon of the lab, kept running by the driver: one that dies is started again."""

    @property
    def name(self) -> str:
        """Name in the lab."""

    @property
    def node(self) -> str:
        """Where it runs."""

    @property
    def role(self) -> Role:
        """What it does; `hawser.driver.roles` says what that means."""

    @property
    def pid(self) -> int:
        """Process id now, on its node."""

    @property
    def restarts(self) -> int:
        """How often it had to be started again."""

    def client(self) -> DaemonClient:
        """What asks and configures it."""

    def usage(self) -> ProcessUsage:
        """What its process has used.

        Raises:
            NodeError: it has ended.
        """


@dataclass(frozen=True)
class LabInfo:
    """What `hawser inspect` says of a lab."""

    name: str
    state: Literal["supervised", "unsupervised", "remains"]
    """Whether the process that restarts its daemons lives; or only remains of a lab are left."""
    age: float | None = None
    """Seconds since it was made."""
    maker: int | None = None
    """Process that made it."""
    nodes: tuple[str, ...] = ()
    daemons: tuple[str, ...] = ()


class Lab(Protocol):
    """A deployed plan."""

    @property
    def name(self) -> str:
        """Name among the driver's labs."""

    @property
    def plan(self) -> NetworkPlan:
        """What stands now: the plan that was deployed, and what `apply` has changed since."""

    @property
    def hawserd(self) -> Path:
        """Where its nodes have the program `hawserd`.

        Raises:
            DriverError: it is not there.
        """

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

    def describe(self) -> LabInfo:
        """Say what it is and who keeps it.

        Raises:
            NodeError: it is no more.
        """

    def collect(self, folder: Path) -> None:
        """Copy what is kept of a trial: configurations to `config`, output of programs to `logs`.

        Secrets stay behind. What is not there any more is left out.
        """

    def destroy(self) -> None:
        """Remove everything the lab made. Idempotent."""


class Fleet(Protocol):
    """The machines of one run; in one process it has one lab at a time."""

    def deploy(self, name: str, plan: NetworkPlan) -> Lab:
        """Make a lab, exactly as planned, and wait until its daemons are connected.

        Raises:
            MissingCapability: the machine lacks something; nothing was made.
            DriverError: anything else; what was made is removed again.
        """

    def release(self) -> None:
        """Give the machines back. Labs on them have been destroyed. Idempotent."""


class Driver(Protocol):
    """A kind of machines."""

    def facts(self) -> Facts:
        """What the machines can do, as far as plans depend on it."""

    def environment(self) -> Environment:
        """What results depend on besides the workflow, for the manifest of a run."""

    def missing(self, plan: NetworkPlan, tools: Collection[str] = ()) -> tuple[str, ...]:
        """What the machines lack of what a plan needs, each with what to do about it.

        Args:
            plan: to be deployed.
            tools: programs that measurements start on its nodes.
        """

    def acquire(self) -> Fleet:
        """Get machines for a run.

        Raises:
            DriverError: there are none.
        """

    def check_name(self, name: str) -> None:
        """See that a lab may have this name.

        Raises:
            DriverError: it may not.
        """

    def attach(self, name: str) -> Lab:
        """A lab that another process deployed.

        Raises:
            DriverError: there is none, or only remains.
        """

    def labs(self) -> tuple[str, ...]:
        """Names of the labs there are, including the remains of crashed ones."""

    def destroy(self, name: str) -> None:
        """Remove a lab by name, also one whose maker was killed at any moment. Idempotent."""
