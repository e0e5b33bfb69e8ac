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
    """A daemon of the lab. The driver restarts it if it dies."""

    @property
    def name(self) -> str:
        """Name in the lab."""

    @property
    def node(self) -> str:
        """Where it runs."""

    @property
    def role(self) -> Role:
        """Its role, see `hawser.driver.roles`."""

    @property
    def pid(self) -> int:
        """Current process id, on its node."""

    @property
    def restarts(self) -> int:
        """How often it was restarted."""

    def client(self) -> DaemonClient:
        """Client of its control API."""

    def usage(self) -> ProcessUsage:
        """Resource usage of its process.

        Raises:
            NodeError: it has ended.
        """


@dataclass(frozen=True)
class LabInfo:
    """Description of a lab for `hawser inspect`."""

    name: str
    state: Literal["supervised", "unsupervised", "remains"]
    """Whether the process that restarts its daemons exists, or only remains of the lab."""
    age: float | None = None
    """Seconds since it was created."""
    maker: int | None = None
    """Process that created it."""
    nodes: tuple[str, ...] = ()
    daemons: tuple[str, ...] = ()


@dataclass(frozen=True)
class ControllerAccess:
    """How to use the API of a lab's controller."""

    node: str
    """From which it is reached."""
    address: tuple[str, int]
    authority: Path
    """Certificate by which its own is verified."""
    user: str
    password: str


class Lab(Protocol):
    """A deployed plan."""

    @property
    def name(self) -> str:
        """Name among the driver's labs."""

    @property
    def plan(self) -> NetworkPlan:
        """The current plan: as deployed, with later changes by `apply`."""

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

    @property
    def onboarding(self) -> float | None:
        """Seconds from the first token until packets passed between all branches.

        None without a controller, or if another process deployed the lab.
        """

    @property
    def access(self) -> ControllerAccess | None:
        """How to use the API of its controller, if it has one."""

    def apply(self, element: str, change: Change) -> float:
        """Change a running element (`link:NAME`, `path:NAME`, `port:NODE.PORT`) both ways.

        Returns:
            When it changes: seconds of the monotonic clock.
        """

    def faults(self) -> tuple[str, ...]:
        """Describe deviations from the plan that no event caused."""

    def describe(self) -> LabInfo:
        """Describe the lab and its supervisor.

        Raises:
            NodeError: it is no more.
        """

    def collect(self, folder: Path) -> None:
        """Copy what is kept of a trial: to `config`, `logs` and `records` (of flows, by sensor).

        Secrets stay behind. What is not there any more is left out.
        """

    def destroy(self) -> None:
        """Remove everything that the lab created. Idempotent."""


class Fleet(Protocol):
    """The machines of one run; in one process it has one lab at a time."""

    def deploy(self, name: str, plan: NetworkPlan) -> Lab:
        """Create a lab exactly as planned, and wait until its daemons are connected.

        Raises:
            MissingCapability: the machine lacks something; nothing was made.
            DriverError: anything else; what was made is removed again.
        """

    def release(self) -> None:
        """Release the machines, after all labs on them were destroyed. Idempotent."""


class Driver(Protocol):
    """A kind of machines."""

    def facts(self) -> Facts:
        """Capabilities of the machines that plans depend on."""

    def environment(self) -> Environment:
        """What results depend on besides the workflow, for the manifest of a run."""

    def missing(self, plan: NetworkPlan, tools: Collection[str] = ()) -> tuple[str, ...]:
        """What a plan needs and the machines lack, each with how to get it.

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
        """Check the name of a lab.

        Raises:
            DriverError: it may not.
        """

    def attach(self, name: str) -> Lab:
        """A lab that another process deployed.

        Raises:
            DriverError: there is none, or only remains.
        """

    def labs(self) -> tuple[str, ...]:
        """Names of all labs, including the remains of crashed ones."""

    def destroy(self, name: str) -> None:
        """Remove a lab by name, also if its creator was killed at any time. Idempotent."""
