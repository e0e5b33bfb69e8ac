"""Names and places of a lab: what it may be called and where its things lie."""

from __future__ import annotations

import re
from pathlib import Path

from hawser.driver.base import DriverError
from hawser.overlay.lab.plan import DaemonPlan, NetworkPlan

ROOT = Path("/run/hawser")
"""One directory a lab. On a file system that is empty after a reboot, as labs are gone then."""

_PREFIX = "hawser."
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_SOCKET_MAX = 107
"""Longest path of a Unix socket, bytes (unix(7): 108 with the final zero)."""


def checked(name: str) -> str:
    """A lab's name, if it may be one.

    Raises:
        DriverError: it would not fit into names of namespaces and sockets.
    """
    if not valid(name):
        raise DriverError(
            f"lab name {name!r}: expected at most 48 lower-case letters, digits and hyphens"
        )
    return name


def valid(name: str) -> bool:
    """Whether a lab may have this name."""
    return _NAME.fullmatch(name) is not None


def prefix(lab: str) -> str:
    """What the names of all namespaces of a lab begin with."""
    return f"{_PREFIX}{lab}."


def namespace(lab: str, node: str) -> str:
    """Name of the namespace of a node."""
    return prefix(lab) + node


def lab_of(namespace: str) -> str | None:
    """The lab that a namespace belongs to, by its name."""
    lab, dot, _ = namespace.removeprefix(_PREFIX).partition(".")
    return lab if namespace.startswith(_PREFIX) and dot and valid(lab) else None


def control_socket(directory: Path, daemon: DaemonPlan) -> Path:
    """Control socket of a daemon: what its configuration says, in the lab's directory.

    Raises:
        DriverError: the path is too long for a socket, or leads out of the directory.
    """
    relative = daemon.config.control
    path = directory / relative
    if relative.is_absolute() or ".." in path.parts:
        raise DriverError(
            f"daemon {daemon.name}: control: found {str(relative)!r}, expected a file name"
        )
    return socket(path, f"daemon {daemon.name}: control")


def socket(path: Path, whose: str) -> Path:
    """Path of a Unix socket, if it may be one.

    Raises:
        DriverError: it is too long.
    """
    if len(bytes(path)) > _SOCKET_MAX:
        raise DriverError(
            f"{whose} socket {path} is longer than {_SOCKET_MAX} bytes:"
            " give the lab or the node a shorter name"
        )
    return path


def check_plan(directory: Path, plan: NetworkPlan) -> None:
    """Find what no kernel would take, before anything is made.

    Raises:
        DriverError: a daemon's socket path is too long.
    """
    for daemon in plan.daemons:
        control_socket(directory, daemon)
