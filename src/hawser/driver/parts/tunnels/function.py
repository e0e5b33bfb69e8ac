"""Tunnels between two functions of a chain: kept running, and connected again after a restart.

What comes to such a function at its cable goes into the tunnel, all of it; what comes out of the
tunnel goes by its plain routes. So the traffic selectors are open, and the routes are ours.

`hawserd function ipsec` carries the packets, with the keys that its charon negotiates.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Network
from pathlib import Path, PurePosixPath

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.daemon import SupervisedProcess
from hawser.driver.parts.tunnels import strongswan
from hawser.driver.parts.tunnels.wait import listening, until
from hawser.driver.roles import ROLES
from hawser.node.base import Node, NodeError
from hawser.node.change import Device
from hawser.overlay.config.ipsec import Ike, IpsecConfig, Rekey
from hawser.overlay.lab.chain.layout import OWN_PORT
from hawser.overlay.lab.plan import NetworkPlan, Role, TunnelPlan

_DEVICE = "esp0"
"""Where packets are taken."""
_MTU = 1400
"""MTU of inner packets, the same as with charon's own ESP."""
_EVERYTHING = IPv4Network("0.0.0.0/0")


class TunnelEnd(SupervisedProcess):
    """A function that is an end of a tunnel (implements `hawser.driver.base.Daemon`)."""

    role: Role = "ipsec"

    def __init__(
        self,
        directory: Path,
        folder: Path,
        plan: TunnelPlan,
        node: Node,
        secret: str,
        rekey_after: int | None = None,
        hawserd: str = "",
    ) -> None:
        """Start it; it is not connected yet.

        Args:
            directory: of the lab.
            folder: of its files.
            plan: of the tunnel, at this end.
            node: where it runs.
            secret: that both ends share.
            rekey_after: packets sealed with one key; half of all there can be if left out.
            hawserd: program; by default the machine's own.

        Raises:
            NodeError: it cannot be started.
        """
        self.control = folder / "control"
        self._plan = plan
        self.folder = folder
        """Of its files."""
        self._rekey_after = rekey_after
        strongswan.write(folder, plan, node, secret)
        config = folder / "ipsec.json"
        node.put(config, self._config().model_dump_json().encode())
        program = ROLES[self.role].program(hawserd)
        command = (*program.command, "--config", str(config))
        env = {**program.env, **strongswan.environment(folder)}
        super().__init__(directory, plan.node, node, command, env=env)

    def _config(self) -> IpsecConfig:
        rekey = Rekey(command=tuple(strongswan.rekey(self.folder, self._plan.name)))
        if self._rekey_after is not None:
            rekey = rekey.model_copy(update={"after": self._rekey_after})
        return IpsecConfig(
            control=PurePosixPath(self.control),
            device=_DEVICE,
            mtu=_MTU,
            interface=OWN_PORT,
            local=self._plan.local,
            remote=self._plan.remote,
            ike=Ike(
                command=tuple(strongswan.COMMAND),
                port=strongswan.PORT,
                peer_port=strongswan.PEER_PORT,
                rekey=rekey,
            ),
        )

    def _prepare(self) -> None:
        strongswan.socket(self.folder).unlink(missing_ok=True)
        self.control.unlink(missing_ok=True)

    def client(self) -> DaemonClient:
        """Client of its control API."""
        return DaemonClient(self.control)

    def load(self) -> None:
        """Wait until it listens and give it its connection.

        Raises:
            NodeError: it ended, or did not take it.
        """
        self._until(listening(strongswan.socket(self.folder)), "start of charon")
        strongswan.load(self.folder, self._at)
        self._at.apply(Device(name=_DEVICE, networks=(_EVERYTHING,), table=self._plan.table))

    def connect(self) -> None:
        """Open the tunnel.

        Raises:
            NodeError: the other end does not answer.
        """
        strongswan.initiate(self.folder, self._at, self._plan.name, self._log)

    def wait(self) -> None:
        """Wait until packets can pass it.

        Raises:
            NodeError: it ended, or has no keys.
        """
        self._until(self._carries, "packets")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        until(
            condition,
            f"{self._plan.name}: {what} at {self.node}",
            self._process,
            self._at,
            self._log,
        )

    def _carries(self) -> bool:
        try:
            with self.client() as client:
                return client.status().connected
        except ControlError:
            return False

    def _rejoin(self) -> None:
        """Connect anew."""
        with contextlib.suppress(NodeError):  # it has ended again: its next start tries again
            self.load()
            self.connect()
            self.wait()


def start(directory: Path, plan: NetworkPlan, nodes: Mapping[str, Node]) -> Iterator[TunnelEnd]:
    """Start both ends of each tunnel between functions, and connect them.

    Raises:
        NodeError: one does not come about.
    """
    between = [end for end in plan.tunnels if end.table is not None]
    for pair in zip(between[::2], between[1::2], strict=True):
        secret = secrets.token_hex(32)
        ends = []
        for end in pair:
            folder = (directory / end.control).parent
            node, program = nodes[end.node], plan.hawserd
            ends.append(TunnelEnd(directory, folder, end, node, secret, hawserd=program))
            yield ends[-1]
        for each in ends:
            each.load()
        ends[0].connect()
        for each in ends:
            each.wait()
