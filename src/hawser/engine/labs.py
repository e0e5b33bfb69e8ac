"""Labs on this machine, whoever created them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hawser.control.client import ControlError
from hawser.control.model import Status
from hawser.driver.base import Daemon, Driver, DriverError, Lab, LabInfo
from hawser.engine.errors import InputError, Interrupted, LackingError
from hawser.engine.plan import missing, plan
from hawser.engine.signals import Signals
from hawser.node.base import Node, NodeError
from hawser.spec.workflow import Workflow
from hawser.store import label


@dataclass(frozen=True)
class DaemonInfo:
    """A daemon of a lab."""

    name: str
    node: str
    pid: int | None
    restarts: int
    status: Status | None
    """None if it does not answer."""
    fault: str = ""
    """Why it does not answer."""


def overview(driver: Driver) -> tuple[LabInfo, ...]:
    """All labs on this machine, with the remains of crashed ones."""
    return tuple(_info(driver, name) for name in driver.labs())


def _info(driver: Driver, name: str) -> LabInfo:
    """Describe a lab; if it cannot be attached to, only its remains exist."""
    try:
        return driver.attach(name).describe()
    except NodeError:
        return LabInfo(name, "remains")


def daemons(lab: Lab) -> tuple[DaemonInfo, ...]:
    """The current state of a lab's daemons."""
    return tuple(_daemon(lab, name) for name in lab.daemons)


def _daemon(lab: Lab, name: str) -> DaemonInfo:
    daemon = lab.daemons[name]
    status, fault = _status(daemon)
    try:
        pid, restarts = daemon.pid, daemon.restarts
    except NodeError as error:
        return DaemonInfo(name, daemon.node, None, 0, status, str(error))
    return DaemonInfo(name, daemon.node, pid, restarts, status, fault)


def _status(daemon: Daemon) -> tuple[Status | None, str]:
    try:
        with daemon.client() as client:
            return client.status(), ""
    except ControlError as error:
        return None, str(error)


def find_node(driver: Driver, reference: str) -> tuple[Lab, Node]:
    """The node called `LAB/NODE`, or `NODE` where there is only one lab, and its lab.

    Raises:
        InputError: there is no such lab or node.
        NodeError: the lab is only remains.
    """
    lab_name, slash, node_name = reference.rpartition("/")
    lab = driver.attach(find_lab(driver, lab_name if slash else None))
    if node_name not in lab.nodes:
        known = ", ".join(lab.nodes)
        raise InputError([f"found node {node_name!r}, expected one of lab {lab.name}: {known}"])
    return lab, lab.nodes[node_name]


def find_lab(driver: Driver, name: str | None) -> str:
    """The lab of this name, or the only one.

    Raises:
        InputError: there is none, or no name was given and there are several.
    """
    labs = driver.labs()
    if name is None and len(labs) == 1:
        return labs[0]
    known = ", ".join(labs) or "none (`hawser deploy FILE` creates one)"
    if name is None:
        raise InputError([f"there is no single lab to choose; labs on this machine: {known}"])
    if name not in labs:
        raise InputError([f"found lab {name!r}; labs on this machine: {known}"])
    return name


def deploy(driver: Driver, workflow: Workflow, name: str, signals: Signals) -> Lab:
    """Create the lab of a workflow's only variant, and keep it.

    Raises:
        InputError: the name is none for a lab, or the workflow has several variants.
        LackingError: this machine lacks something; nothing was made.
        NodeError: it could not be made; what was made is removed again.
    """
    try:
        driver.check_name(name)
    except DriverError as error:
        raise InputError([str(error)]) from error
    if len(workflow.variants) > 1:
        labels = "; ".join(label(variant.labels) for variant in workflow.variants)
        raise InputError([f"{workflow.name} has several variants, choose one: {labels}"])
    planned = plan(workflow, driver.facts())
    if lacks := missing(planned, driver):
        raise LackingError(lacks)
    with signals.handled():
        return driver.acquire().deploy(name, planned.variants[0].network)


def supervise(lab: Lab, signals: Signals, poll: float = 0.5) -> None:
    """Restart daemons of a lab that die, until there is an interruption or the lab is removed."""
    with contextlib.suppress(Interrupted), signals.handled():
        try:
            while _stands(lab):
                signals.sleep(poll)
        finally:
            with signals.shielded():
                lab.destroy()


def _stands(lab: Lab) -> bool:
    """Whether a lab still exists."""
    try:
        lab.describe()
    except NodeError:
        return False
    return True
