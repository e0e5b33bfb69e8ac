"""A driver without machines: it records what it is asked for, and answers with canned counters.

Everything above drivers runs on it unchanged. Its environment says that all of it is simulated.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hawser.control.client import DaemonClient
from hawser.driver.base import ControllerAccess, DriverError, LabInfo
from hawser.driver.roles import ROLES
from hawser.node.base import ProcessUsage
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import DaemonPlan, NetworkPlan, Role
from hawser.spec.workflow import Change
from hawser.store.manifest import Environment, Machine
from lab.dry.answers import Network
from lab.dry.node import DryNode

SIMULATED = "dry: simulated, no packet was sent"


class CannedClient(DaemonClient):
    """Answers in the place of a daemon: it is ready and has counted nothing."""

    def __init__(self, role: Role) -> None:
        super().__init__(Path("/nonexistent"))
        self._role = role

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        return json.dumps(self._answer(path)).encode()

    def _answer(self, path: str) -> dict[str, Any]:
        if path == "/v1/status":
            return {"version": "0", "role": self._role, "uptime_s": 1, "ready": True}
        if path == "/v1/ids":
            return {"packets": {"observed": 0, "lost": 0}, "flows": {"begun": 0, "records": 0}}
        if path == "/v1/queues":
            return {"queues": []}
        wan = ROLES[self._role].counters == "wan"
        return {"interfaces": [], "paths": [], "buffered_bytes": 0} if wan else {}


@dataclass(frozen=True)
class DryDaemon:
    """Implements `hawser.driver.base.Daemon`."""

    name: str
    node: str
    role: Role
    pid: int = 1
    restarts: int = 0

    @classmethod
    def of(cls, plan: DaemonPlan) -> DryDaemon:
        return cls(plan.name, plan.node, plan.role)

    def client(self) -> DaemonClient:
        return CannedClient(self.role)

    def usage(self) -> ProcessUsage:
        return ProcessUsage(cpu_seconds=0.1, memory=1 << 20, memory_peak=1 << 20, threads=1)


@dataclass
class DryLab:
    """Implements `hawser.driver.base.Lab`."""

    name: str
    plan: NetworkPlan
    driver: DryDriver
    nodes: Mapping[str, DryNode] = field(init=False)
    daemons: Mapping[str, DryDaemon] = field(init=False)

    def __post_init__(self) -> None:
        network = Network()
        self.nodes = {node.name: DryNode.of(node, self.plan, network) for node in self.plan.nodes}
        self.daemons = {each.name: DryDaemon.of(each) for each in self.plan.daemons}

    @property
    def hawserd(self) -> Path:
        return Path("hawserd")

    @property
    def onboarding(self) -> float | None:
        return None if self.plan.controller is None else 1.0

    @property
    def access(self) -> ControllerAccess | None:
        return None

    def apply(self, element: str, change: Change) -> float:
        raise DriverError("a dry lab does not change")

    def faults(self) -> tuple[str, ...]:
        return ()

    def describe(self) -> LabInfo:
        return LabInfo(self.name, "supervised", 0.0, 1, tuple(self.nodes), tuple(self.daemons))

    def collect(self, folder: Path) -> None:
        self.driver.asked.append(f"collect {self.name}")
        (folder / "logs").mkdir(exist_ok=True)
        for name in self.daemons:
            (folder / "logs" / f"{name}.log").write_text(f"{SIMULATED}\n")

    def destroy(self) -> None:
        self.driver.destroy(self.name)


@dataclass
class DryDriver:
    """Implements `hawser.driver.base.Driver`, and is its own fleet."""

    asked: list[str] = field(default_factory=list)
    """What it was asked for, in order."""
    deployed: list[NetworkPlan] = field(default_factory=list)
    standing: dict[str, DryLab] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    """What was run on nodes of labs that were destroyed since."""

    def facts(self) -> Facts:
        return Facts(netem=False)

    def environment(self) -> Environment:
        cores, memory = 4, 1 << 30
        machine = Machine(
            cpu=SIMULATED, cores=cores, memory=memory, kernel=SIMULATED, distribution=SIMULATED
        )
        return Environment(machine=machine)

    def missing(self, plan: NetworkPlan, tools: Collection[str] = ()) -> tuple[str, ...]:
        return ()

    def acquire(self) -> DryDriver:
        self.asked.append("acquire")
        return self

    def release(self) -> None:
        self.asked.append("release")

    def check_name(self, name: str) -> None:
        if not name:
            raise DriverError("a lab has a name")

    def deploy(self, name: str, plan: NetworkPlan) -> DryLab:
        if name in self.standing:
            raise DriverError(f"lab {name} exists")
        self.asked.append(f"deploy {name}")
        self.deployed.append(plan)
        self.standing[name] = DryLab(name, plan, self)
        return self.standing[name]

    def attach(self, name: str) -> DryLab:
        if name not in self.standing:
            raise DriverError(f"lab {name}: there is none of that name")
        return self.standing[name]

    def labs(self) -> tuple[str, ...]:
        return tuple(sorted(self.standing))

    def destroy(self, name: str) -> None:
        lab = self.standing.pop(name, None)
        if lab is not None:
            self.asked.append(f"destroy {name}")
            self.commands += (each for node in lab.nodes.values() for each in node.commands)
