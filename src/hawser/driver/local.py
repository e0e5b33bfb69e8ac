"""Labs on this machine: every node a network namespace, every link a veth pair."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Self

from hawser.driver import (
    build,
    capabilities,
    changes,
    daemon,
    names,
    remains,
    roles,
    state,
)
from hawser.driver.base import (
    ControllerAccess,
    Daemon,
    DriverError,
    LabInfo,
    MissingCapability,
)
from hawser.driver.daemon import AttachedDaemon, SupervisedDaemon, SupervisedProcess
from hawser.driver.parts import cross_traffic, openvswitch, programs, tunnels
from hawser.driver.parts.controller import AgentDaemon, LabController
from hawser.driver.parts.tunnels import function
from hawser.driver.parts.tunnels.function import TunnelEnd
from hawser.node.base import NodeError, Process
from hawser.node.change import Settings
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab import emulator
from hawser.overlay.lab.facts import Facts
from hawser.overlay.lab.plan import (
    AGENTS,
    DaemonPlan,
    FirewallDaemon,
    GatewayDaemon,
    IdsDaemon,
    NetworkPlan,
)
from hawser.spec.names import INTERNET
from hawser.spec.workflow import Change
from hawser.store.environment import environment
from hawser.store.manifest import Environment

_KEPT = ("config", "logs")
"""Folders of a lab that are kept of a trial. Keys are elsewhere."""
_LOCK_WAIT = 30.0
"""Seconds to wait for another process that is making or removing the same lab."""


class LocalLab:
    """A deployed plan (implements `hawser.driver.base.Lab`).

    Its daemons are kept running while the process lives that deployed it. A lab from `attach`
    supervises nothing: its daemons are its maker's.
    """

    def __init__(
        self,
        directory: Path,
        plan: NetworkPlan,
        nodes: dict[str, NamespaceNode],
        daemons: Mapping[str, SupervisedDaemon | AttachedDaemon | AgentDaemon],
    ) -> None:
        self.name = directory.name
        self.directory = directory
        self.plan = plan
        self.nodes = nodes
        self._planned = daemons
        self.tunnels: list[Process] = []
        """Processes of tunnels that this process started."""
        self.cross_traffic = cross_traffic.CrossTraffic(directory, plan)
        self.switches: list[SupervisedProcess] = []
        """Processes of OpenFlow switches that this process started and keeps running."""
        self.programs: dict[str, SupervisedProcess] = {}
        """Functions that are programs of others, by instance."""
        self.controller = (
            LabController(directory, plan.controller, nodes) if plan.controller else None
        )
        """The controller that gateways have joined."""
        self.controllers: list[SupervisedProcess] = []
        """Processes of controller and agents that this process started and keeps running."""

    @property
    def hawserd(self) -> Path:
        """Where this machine has the program `hawserd`."""
        return roles.hawserd()

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        """Daemons by name: those of the plan, and ends of tunnels between functions."""
        ends = {name: each for name, each in self.programs.items() if isinstance(each, TunnelEnd)}
        return {**self._planned, **ends}

    @property
    def onboarding(self) -> float | None:
        """Seconds from the first token to traffic between all branches; see `Lab.onboarding`."""
        return self.controller.onboarding if self.controller else None

    @property
    def access(self) -> ControllerAccess | None:
        """How to use the API of its controller; see `Lab.access`."""
        return self.controller.access if self.controller else None

    def apply(self, element: str, change: Change) -> float:
        """Change a running element in both directions, each atomically.

        A rate or queue takes effect for packets that already wait. An element that is taken down
        drops what comes (`drop_down`); routes and carrier stay, as when a cable is cut beyond the
        next switch.

        Returns:
            When the first direction changes, in seconds of the monotonic clock.

        Raises:
            DriverError: there is no such element, or it has no such value; nothing has changed.
        """
        kind, _, name = element.partition(":")
        if kind == "controller":
            return self._control(name, change)
        if kind == "function":
            return self._switch(name, change)
        todo = changes.planned(self.plan, element, change)
        after = emulator.configured(changes.applied(self.plan, todo))
        for name in emulator.unwired(after):
            raise DriverError(
                f"{name} has no delay, jitter or loss to change: set one in the topology"
                " (a delay of 0 ms is sufficient)"
            )
        with state.locked(self.directory, _LOCK_WAIT):
            moments = [self.nodes[each.after.node].apply(each) for each in todo]
            self._emulate(after)
            self.plan = after
            record = state.read(self.directory)
            state.write(self.directory, record.model_copy(update={"plan": self.plan}))
        return min(moments)

    def _control(self, node: str, change: Change) -> float:
        """Change the controller's network, or kill or restart it; gives the time of the change."""
        if self.controller is None or self.plan.controller is None:
            raise DriverError(f"no controller {node!r} in this lab")
        if change.network is not None:
            return self.controller.change(change.network)
        process = self.controller.process
        if process is None or change.up is None:
            raise DriverError(f"controller {node!r}: not started by this process")
        moment = time.monotonic()
        (process.resume if change.up else process.kill)()
        return moment

    def _switch(self, function: str, change: Change) -> float:
        """Kill or restart all instances of a function; gives the time of the change."""
        processes = {**self.daemons, **self.programs}
        found = [processes.get(name) for name in self.plan.instances.get(function, ())]
        running = [each for each in found if isinstance(each, SupervisedProcess)]
        if not running or change.up is None:
            raise DriverError(
                f"function {function!r}: not started by this process, which cannot kill it"
            )
        moment = time.monotonic()
        for each in running:
            (each.resume if change.up else each.kill)()
        return moment

    def _emulate(self, after: NetworkPlan) -> None:
        """Give the WAN emulator the configuration of a plan, if it has changed."""
        config = emulator.configuration(after)
        if config is not None and config != emulator.configuration(self.plan):
            daemon.reconfigure(self.daemons[emulator.EMULATOR], self.directory, config)

    def faults(self) -> tuple[str, ...]:
        """Describe deviations from the plan that no event caused."""
        died = (
            f"{each.name} died and was restarted (restarts: {each.restarts})"
            if each.running()
            else f"{each.name} died"
            for each in (*self.switches, *self.controllers, *self.programs.values())
            if each.restarts or (each.wanted and not each.running())
        )
        ended = (f"tunnel process {p.pid} ended" for p in self.tunnels if not p.running())
        return (*self.cross_traffic.faults(), *died, *ended)

    def describe(self) -> LabInfo:
        """Say what it is and who keeps it; see `Lab.describe`."""
        record = state.read(self.directory)
        return LabInfo(
            name=self.name,
            state="supervised" if record.maker.alive() else "unsupervised",
            age=max(0.0, time.time() - record.created),
            maker=record.maker.pid,
            nodes=tuple(self.nodes),
            daemons=tuple(self.daemons),
        )

    def collect(self, folder: Path) -> None:
        """Copy configurations, logs and flow records; see `Lab.collect`."""
        for name in _KEPT:
            self._keep(name, folder / name)
        for name, each in self._planned.items():
            log = self.directory / AGENTS / name / "hawserd.log"
            if isinstance(each, AgentDaemon) and log.exists():
                shutil.copy(log, folder / "logs" / f"{name}.log")
        for sensor in self.plan.daemons:
            if isinstance(sensor, IdsDaemon) and sensor.config.ids.records is not None:
                kept = str(sensor.config.ids.records.folder)
                self._keep(kept, folder / "records" / sensor.name)

    def _keep(self, name: str, target: Path) -> None:
        """Copy a folder of the lab, if there is one."""
        if (self.directory / name).is_dir():
            shutil.copytree(self.directory / name, target, dirs_exist_ok=True)

    def destroy(self) -> None:
        """Remove everything the lab made. Idempotent."""
        daemons = [each for each in self._planned.values() if isinstance(each, SupervisedDaemon)]
        supervised = [*daemons, *self.switches, *self.controllers, *self.programs.values()]
        for each in supervised:
            each.release()
        remains.destroy(self.directory, _LOCK_WAIT)
        for each in supervised:
            each.stop()
        for process in self.tunnels:
            process.stop()
        self.cross_traffic.stop()


class LocalDriver:
    """Makes labs of network namespaces (implements `hawser.driver.base.Driver`).

    It is its own fleet: this machine is always there, and stays.
    """

    def __init__(self, root: Path = names.ROOT) -> None:
        self._root = root

    def facts(self) -> Facts:
        """What this machine can do."""
        return capabilities.facts()

    def environment(self) -> Environment:
        """What results depend on, of this machine."""
        try:
            program = roles.hawserd()
        except DriverError:  # labs without daemons need none
            program = None
        return environment(program)

    def missing(self, plan: NetworkPlan, tools: Collection[str] = ()) -> tuple[str, ...]:
        """What this machine lacks, each with what to do about it; see `Driver.missing`."""
        return (*capabilities.missing(plan), *capabilities.missing_tools(tools))

    def acquire(self) -> Self:
        """Get this machine for a run."""
        return self

    def release(self) -> None:
        """Nothing is to be given back."""

    def check_name(self, name: str) -> None:
        """See that a lab may have this name; see `Driver.check_name`."""
        names.checked(name)

    def deploy(self, name: str, plan: NetworkPlan) -> LocalLab:
        """Make a lab and wait until its daemons are connected; see `Fleet.deploy`."""
        directory = self._root / names.checked(name)
        names.check_plan(directory, plan)
        openvswitch.check_plan(directory, plan)
        lacking = self.missing(plan)
        if lacking:
            raise MissingCapability("; ".join(lacking))
        daemons: dict[str, SupervisedDaemon | AgentDaemon] = {}
        lab = LocalLab(directory, plan, build.nodes(directory, plan), daemons)
        state.create(directory)
        try:
            _make(lab, daemons)
        except BaseException as error:
            lab.destroy()
            if isinstance(error, NodeError) and not isinstance(error, DriverError):
                raise DriverError(str(error)) from error
            raise
        return lab

    def attach(self, name: str) -> LocalLab:
        """A lab that another process deployed; its daemons are not supervised by this one."""
        directory = self._root / names.checked(name)
        record = state.read(directory)
        if not record.complete:
            doing = "is being made" if record.maker.alive() else "only remains are left: destroy it"
            raise DriverError(f"lab {name}: {doing}")
        plan = record.plan
        daemons = {each.name: _attached(directory, each) for each in plan.daemons}
        return LocalLab(directory, plan, build.nodes(directory, plan), daemons)

    def labs(self) -> tuple[str, ...]:
        """Names of the labs on this machine, including the remains of crashed ones."""
        return remains.labs(self._root)

    def destroy(self, name: str) -> None:
        """Remove a lab by name, also one whose maker was killed at any moment. Idempotent.

        Raises:
            DriverError: another process is making it, or a process of it does not end.
        """
        remains.destroy(self._root / names.checked(name), _LOCK_WAIT)


def _attached(directory: Path, plan: DaemonPlan) -> AttachedDaemon | AgentDaemon:
    if isinstance(plan, GatewayDaemon) and plan.joined:
        return AgentDaemon(directory, plan)
    return AttachedDaemon(directory, plan)


def _make(lab: LocalLab, daemons: dict[str, SupervisedDaemon | AgentDaemon]) -> None:
    """Make everything of a lab whose directory exists; daemons are put into `daemons`."""
    directory, plan = lab.directory, lab.plan
    record = _record(lab.name, plan)
    own: dict[str, SupervisedDaemon] = {}
    with state.locked(directory, 0):
        state.write(directory, record)
        build.network(lab.nodes, plan)
        _certificates(directory, plan)
        openvswitch.prepare(directory, plan)
        switched = tuple(each.name for each in _gateways(plan, joined=False) if each.config.switch)
        _forward(lab, allowed=not switched)
        for each in plan.daemons:
            if not (isinstance(each, GatewayDaemon) and each.joined):
                node = lab.nodes[each.node]
                own[each.name] = SupervisedDaemon(directory, each, node, plan.hawserd)
                daemons[each.name] = own[each.name]
        openvswitch.start(directory, plan, lab.nodes, lab.switches.append)
    if switched:
        daemon.wait_started(tuple(own[name] for name in switched))
        _forward(lab, allowed=True)
    daemon.wait_ready(tuple(own.values()))
    if lab.controller is not None:
        agents = {each.name: AgentDaemon(directory, each) for each in _gateways(plan, joined=True)}
        daemons.update(agents)
        lab.controller.start(agents, lab.controllers.append)
    with state.locked(directory, _LOCK_WAIT):
        tunnels.start(directory, plan, lab.nodes, lab.tunnels.append)
        for program in programs.start(directory, plan, lab.nodes):
            lab.programs[program.name] = program
        for end in function.start(directory, plan, lab.nodes):
            lab.programs[end.name] = end
        lab.cross_traffic.start(lab.nodes)
        state.write(directory, record.model_copy(update={"complete": True}))
    daemon.wait_healthy(tuple(own.values()))
    for running in (*own.values(), *lab.switches, *lab.controllers, *lab.programs.values()):
        running.supervise()


def _gateways(plan: NetworkPlan, *, joined: bool) -> Iterator[GatewayDaemon]:
    """Give the daemons of gateways that have joined a controller, or of those that have not."""
    for each in plan.daemons:
        if isinstance(each, GatewayDaemon) and each.joined == joined:
            yield each


def _forward(lab: LocalLab, *, allowed: bool) -> None:
    """Let packets pass the internet, or not.

    Not before all gateways have their switches: a transit gateway's kernel would answer a subflow
    that it does not know with a reset, and the sender's path manager does not try it again.
    """
    if INTERNET in lab.nodes:
        value = {"net.ipv4.ip_forward": "1" if allowed else "0"}
        lab.nodes[INTERNET].apply(Settings(values=value))


def _record(name: str, plan: NetworkPlan) -> state.LabRecord:
    maker = state.ProcessRecord.of(os.getpid())
    if maker is None:
        raise DriverError("/proc is not mounted")
    return state.LabRecord(name=name, maker=maker, created=time.time(), plan=plan)


def _certificates(directory: Path, plan: NetworkPlan) -> None:
    gateways = (each.config for each in _gateways(plan, joined=False))
    branches = {config.branch for config in gateways if config.tls is not None}
    firewalls = (each for each in plan.daemons if isinstance(each, FirewallDaemon))
    servers = {each.name for each in firewalls if each.config.firewall.rest is not None}
    if branches | servers:
        from hawser.driver.parts import pki  # cryptography takes long to import

        pki.make(directory / "pki", sorted(branches | servers))
        pki.make_tokens(directory / "pki", sorted(servers))
