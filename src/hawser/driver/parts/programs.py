"""Third-party programs as functions of a lab: started, restarted, and ended with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which

from hawser.driver.base import DriverError
from hawser.driver.daemon import SupervisedProcess
from hawser.node.base import Node, NodeError
from hawser.overlay.lab.plan import NetworkPlan, ProgramPlan

_SETUP_SECONDS = 30
"""Seconds in which a setup command must end."""


class SupervisedProgram(SupervisedProcess):
    """A third-party program, with the setup commands that run before each start."""

    def __init__(self, directory: Path, plan: ProgramPlan, node: Node) -> None:
        """Write its files and start it.

        Raises:
            NodeError: a command that prepares it failed, or it cannot be started.
        """
        self._plan = plan
        self._folder = _put_files(node, directory, plan)
        super().__init__(directory, plan.node, node, plan.command, folder=self._folder)

    def _prepare(self) -> None:
        _prepare(self._at, self._plan, self._folder)


def _prepare(node: Node, plan: ProgramPlan, folder: Path) -> None:
    """Run the setup commands of a program.

    Raises:
        NodeError: a command failed; with the end of what it said.
    """
    for command in plan.setup:
        node.run(command, timeout=_SETUP_SECONDS, folder=folder)


def start(
    directory: Path, plan: NetworkPlan, nodes: Mapping[str, Node]
) -> Iterator[SupervisedProgram]:
    """Start all programs of a plan, one after the other.

    Raises:
        DriverError: one cannot be started, or what prepares it failed.
    """
    for each in plan.programs:
        try:
            node = nodes[each.node]
            if each.command:
                yield SupervisedProgram(directory, each, node)
            else:
                _prepare(node, each, _put_files(node, directory, each))
        except NodeError as error:
            raise DriverError(f"function {each.node}: {error}") from error


def _put_files(node: Node, directory: Path, plan: ProgramPlan) -> Path:
    """Make the directory of a program, with its files."""
    folder = directory / "functions" / plan.node
    node.run(("mkdir", "-p", str(folder)), timeout=_SETUP_SECONDS)
    for name, content in plan.files.items():
        node.put(folder / name, content.encode())
    return folder


def missing(plan: NetworkPlan) -> Iterator[str]:
    """Programs of functions that this machine lacks."""
    for each in plan.programs:
        for command in (*each.setup, each.command):
            if command and which(command[0]) is None:
                yield f"program {command[0]} of function {each.node}: install it"
