"""OpenFlow switches of a lab: an ovsdb-server and an ovs-vswitchd on each gateway.

Both run in the gateway's namespace, with all their files in one directory of the lab, and are
started again when they die. The datapath is Open vSwitch's own, in user space: no kernel module.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from hawser.driver import names
from hawser.driver.base import DriverError
from hawser.driver.daemon import SupervisedProcess
from hawser.node.base import Node
from hawser.overlay.lab.plan import NetworkPlan, SwitchPlan

PACKAGE = "openvswitch-switch"
BRIDGE = "ofs_br"
_PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-vswitchd")
SCHEMA: Final = Path("/usr/share/openvswitch/vswitch.ovsschema")
_RECONNECT_MS = 1000
"""Longest pause before a switch tries again to reach its controller: the least it can have."""
_WITHIN = 10.0
"""Seconds in which Open vSwitch must answer; it takes some 50 ms to start."""
_LOGGING = ("-vsyslog:off", "-vfile:off", "-vconsole:info")


class _OpenVSwitch:
    """One switch on its node."""

    def __init__(self, directory: Path, plan: SwitchPlan, node: Node) -> None:
        self._directory = directory
        self._plan = plan
        self._node = node
        self._folder = folder(directory, plan)
        self._env = {"OVS_RUNDIR": str(self._folder)}

    def start(self, started: Callable[[SupervisedProcess], None]) -> None:
        """Start both processes, and wait until the switch has its ports."""
        database, socket = str(self._folder / "conf.db"), self._folder / "db"
        self._run("ovsdb-tool", "create", database, str(SCHEMA))
        started(self._keep("ovsdb", "ovsdb-server", f"--remote=punix:{socket}", database))
        made = settings(self._plan.ports, self._plan.datapath_id, self._folder / "of")
        self._vsctl("--no-wait", *made)
        started(self._keep("ofs", "ovs-vswitchd", f"unix:{socket}"))
        # Waits for ovs-vswitchd to have done what the database says.
        self._vsctl("set", "Open_vSwitch", ".", "external_ids:made=yes")
        for interface, _ in self._plan.ports:
            error = self._vsctl("get", "Interface", interface, "error").strip()
            if error != "[]":
                raise DriverError(f"switch {self._plan.node}: port {interface}: {error}")

    def _keep(self, part: str, *command: str) -> SupervisedProcess:
        """Start a program that stays."""
        control = f"--unixctl={self._folder / f'{part}.ctl'}"
        name = f"{self._node.name}-{part}"
        whole = (*command, control, *_LOGGING)
        return SupervisedProcess(self._directory, name, self._node, whole, self._env)

    def _vsctl(self, *arguments: str) -> str:
        where = f"--db=unix:{self._folder / 'db'}"
        return self._run("ovs-vsctl", where, f"--timeout={_WITHIN:g}", "--retry", *arguments)

    def _run(self, *command: str) -> str:
        return self._node.run(command, timeout=_WITHIN + 1, env=self._env).stdout


def folder(directory: Path, plan: SwitchPlan) -> Path:
    """Where a switch has its files: where its controller's socket is."""
    return (directory / plan.socket).parent


def prepare(directory: Path, plan: NetworkPlan) -> None:
    """Make the switches' folders, in which their controller then listens."""
    for switch in plan.switches:
        folder(directory, switch).mkdir(mode=0o700)


def start(
    directory: Path,
    plan: NetworkPlan,
    nodes: Mapping[str, Node],
    started: Callable[[SupervisedProcess], None],
) -> None:
    """Start all switches of a plan.

    Args:
        directory: of the lab.
        plan: of the lab.
        nodes: of the lab, by name.
        started: told of every process as soon as it runs.

    Raises:
        NodeError: a switch does not start, or cannot use a port.
    """
    for switch in plan.switches:
        _OpenVSwitch(directory, switch, nodes[switch.node]).start(started)


def missing(plan: NetworkPlan) -> Iterator[str]:
    """What the switches of a plan need and this machine lacks, with how to get it."""
    if plan.switches and (fault := absent()):
        yield f"{fault}: apt-get install {PACKAGE}"


def absent() -> str:
    """What of Open vSwitch is not installed; empty when all is."""
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            return f"no program {program}"
    return "" if SCHEMA.exists() else f"no file {SCHEMA}"


def check_plan(directory: Path, plan: NetworkPlan) -> None:
    """Find socket paths that are too long, before anything is made.

    Raises:
        DriverError: one is.
    """
    for switch in plan.switches:
        names.socket(folder(directory, switch) / f"{BRIDGE}.snoop", f"switch {switch.node}")


def settings(ports: Iterable[tuple[str, int]], datapath_id: int, socket: Path) -> Iterator[str]:
    """Give the words of one transaction that makes the bridge (ovs-vswitchd.conf.db(5)).

    Without its controller the switch goes on as it is (`fail_mode=secure`): it never becomes the
    learning switch that forwards everything. Shapers of ports are left alone (`linux-noop`): it
    would take them away.

    Args:
        ports: interfaces and their OpenFlow numbers.
        datapath_id: of the bridge.
        socket: Unix socket where the controller listens.
    """
    yield from ("--", "init")
    yield from ("--", "--id=@untouched", "create", "QoS", "type=linux-noop")
    yield from ("--", "add-br", BRIDGE)
    yield from ("--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure")
    yield from ("protocols=OpenFlow13", f"other_config:datapath-id={datapath_id:016x}")
    yield from ("other_config:disable-in-band=true",)
    for interface, number in ports:
        yield from ("--", "add-port", BRIDGE, interface)
        yield from ("--", "set", "Interface", interface, f"ofport_request={number}")
        yield from ("--", "set", "Port", interface, "qos=@untouched")
    yield from ("--", "set-controller", BRIDGE, f"unix:{socket}")
    yield from ("--", "set", "Controller", BRIDGE, f"max_backoff={_RECONNECT_MS}")
