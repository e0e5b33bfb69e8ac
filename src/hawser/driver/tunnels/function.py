"""Tunnels between two functions of a chain: kept running, and connected again after a restart.

What comes to such a function at its cable goes into the tunnel, all of it; what comes out of the
tunnel goes by its plain routes. So the traffic selectors are open, and the routes are ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from hawser.driver.daemon import SupervisedProcess
from hawser.driver.tunnels import strongswan
from hawser.driver.tunnels.wait import until
from hawser.node.base import NodeError
from hawser.node.netns import NamespaceNode
from hawser.overlay.plan import NetworkPlan, TunnelPlan

_DEVICE = "ipsec0"
"""Where charon takes packets in user space."""
_SECONDS = 10


class TunnelEnd(SupervisedProcess):
    """A charon that is a function."""

    def __init__(
        self, directory: Path, folder: Path, plan: TunnelPlan, node: NamespaceNode, secret: str
    ) -> None:
        """Start it; it is not connected yet.

        Raises:
            NodeError: it cannot be started.
        """
        self._plan = plan
        self._folder = folder
        self._at = node
        strongswan.write(folder, plan, secret)
        env = strongswan.environment(folder)
        super().__init__(directory, plan.node, node, strongswan.COMMAND, env=env)

    def _prepare(self) -> None:
        strongswan.socket(self._folder).unlink(missing_ok=True)

    def load(self) -> None:
        """Wait until it listens and give it its connection.

        Raises:
            NodeError: it ended, or did not take it.
        """
        there = strongswan.socket(self._folder).is_socket
        what = f"{self._plan.name}: start of charon on {self.node}"
        until(there, what, self._process, self._log)
        strongswan.load(self._folder, self._at)
        route = ["ip", "route", "replace", "default", "dev", _DEVICE, "table"]
        self._at.run([*route, str(self._plan.table)], timeout=_SECONDS)

    def connect(self) -> None:
        """Open the tunnel.

        Raises:
            NodeError: the other end does not answer.
        """
        strongswan.initiate(self._folder, self._at, self._plan.name)

    def ready(self) -> bool:
        """Connect anew after a restart; whether that came about."""
        try:
            self.load()
            self.connect()
        except NodeError:
            return False
        return True


def start(
    directory: Path, plan: NetworkPlan, nodes: Mapping[str, NamespaceNode]
) -> Iterator[TunnelEnd]:
    """Start both ends of each tunnel between functions, and connect them.

    Raises:
        NodeError: one does not come about.
    """
    between = [end for end in plan.tunnels if end.table is not None]
    for pair in zip(between[::2], between[1::2], strict=True):
        secret = secrets.token_hex(32)
        ends = []
        for end in pair:
            folder = directory / "tunnels" / end.name / end.node
            folder.mkdir(mode=0o700, parents=True)
            ends.append(TunnelEnd(directory, folder, end, nodes[end.node], secret))
            yield ends[-1]
        for each in ends:
            each.load()
        ends[0].connect()
