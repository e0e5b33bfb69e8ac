"""GRE by `hawser.node.gre`, in user space."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from hawser.driver.base import DriverError
from hawser.driver.parts.tunnels.wait import until
from hawser.driver.roles import python_environment
from hawser.node.base import Node, NodeError, Process
from hawser.node.change import Device
from hawser.overlay.lab.plan import TunnelPlan

_DEVICE = "gre1"
_MTU = 1476
"""A link of 1500 without an IPv4 header and the four bytes of GRE."""


def missing() -> None:
    """Look for TUN devices.

    Raises:
        DriverError: there are none.
    """
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise DriverError("TUN devices: load the kernel module tun")


def start(
    directory: Path,
    ends: tuple[TunnelPlan, TunnelPlan],
    nodes: Mapping[str, Node],
    started: Callable[[Process], None],
) -> None:
    """Start both ends; see `hawser.driver.parts.tunnels`. GRE has no handshake."""
    for end in ends:
        node, log = nodes[end.node], directory / f"{end.node}.log"
        program = [
            sys.executable,
            "-m",
            "hawser.node.gre",
            _DEVICE,
            str(end.local),
            str(end.remote),
        ]
        process = node.start(program, log=log, env=python_environment())
        started(process)
        device = Device(name=_DEVICE, mtu=_MTU, networks=end.outside)
        until(
            partial(_applied, node, device), f"{end.name}: start on {end.node}", process, node, log
        )


def _applied(node: Node, device: Device) -> bool:
    """Bring the device up, with its routes, as soon as it is there."""
    try:
        node.apply(device)
    except NodeError:
        return False
    return True
