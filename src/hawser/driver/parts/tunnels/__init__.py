"""Third-party VPN tunnels, started on the nodes of a lab and ended with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from hawser.driver.base import DriverError
from hawser.driver.parts.tunnels import gre, strongswan, wireguard
from hawser.node.base import Node, Process
from hawser.overlay.lab.plan import NetworkPlan, TunnelPlan
from hawser.spec.tunnel import TunnelKind


class _Start(Protocol):
    def __call__(
        self,
        directory: Path,
        ends: tuple[TunnelPlan, TunnelPlan],
        nodes: Mapping[str, Node],
        started: Callable[[Process], None],
    ) -> None:
        """Start both ends and wait until they are connected.

        Args:
            directory: of the tunnel, in the lab's.
            ends: the end that opens the tunnel first.
            nodes: of the lab, by name.
            started: told of every process as soon as it runs.

        Raises:
            NodeError: it did not come about.
        """


_KINDS: dict[TunnelKind, _Start] = {
    TunnelKind.STRONGSWAN: strongswan.start,
    TunnelKind.WIREGUARD_GO: wireguard.start,
    TunnelKind.GRE: gre.start,
}
_PROGRAMS = {
    TunnelKind.STRONGSWAN: strongswan.missing,
    TunnelKind.WIREGUARD_GO: wireguard.missing,
    TunnelKind.GRE: gre.missing,
}


def start(
    directory: Path,
    plan: NetworkPlan,
    nodes: Mapping[str, Node],
    started: Callable[[Process], None],
) -> None:
    """Start all tunnels of a plan except those between functions; see `_Start`."""
    ends = [end for end in plan.tunnels if end.table is None]
    for first, second in zip(ends[::2], ends[1::2], strict=True):
        folder = directory / "tunnels" / first.name
        folder.mkdir(mode=0o700, parents=True)
        _KINDS[first.kind](folder, (first, second), nodes, started)


def missing(plan: NetworkPlan) -> Iterator[str]:
    """Programs that the tunnels of a plan need and this machine lacks, with how to get them."""
    for kind in dict.fromkeys(end.kind for end in plan.tunnels):
        try:
            _PROGRAMS[kind]()
        except DriverError as error:
            yield str(error)
