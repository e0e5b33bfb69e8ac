"""Member paths as written in workflows, and the switch that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from hawser.spec.overlay import Overlay, Paths, SwitchKind, Transport
from hawser.spec.port import Port
from hawser.spec.topology import PortType, Topology


@dataclass(frozen=True, order=True)
class Stop:
    """A WAN port of a branch."""

    branch: str
    port: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Read `branch.port`."""
        branch, _, port = text.partition(".")
        return cls(branch, port)


Hop = tuple[Stop, Stop]
"""A WAN hop: the port by which packets leave a branch, and the one at which they arrive."""


def stops(route: str) -> list[Stop]:
    """Give the ports of a path in order."""
    return [Stop.of(text) for text in route.split(">")]


def hops(route: str) -> list[Hop]:
    """Give the WAN hops of a path with an even number of ports."""
    passed = stops(route)
    return list(zip(passed[::2], passed[1::2], strict=True))


def has_transit(route: str) -> bool:
    """Tell whether a path passes transit branches."""
    return route.count(">") > 1


def route_branches(route: str) -> tuple[str, str]:
    """Give the branches at the two ends of a path."""
    passed = stops(route)
    return passed[0].branch, passed[-1].branch


def turned(route: str) -> str:
    """Give the path in the other direction."""
    return ">".join(reversed(route.split(">")))


def switch_kind(topology: Topology, overlay: Overlay) -> SwitchKind:
    """Give the switch of an overlay: the configured one, or the one that its paths need.

    Paths through transit branches need one, whether described or chosen automatically, and so do
    leased lines, which not every port reaches. Only `mptcp` and `quic` have path labels.
    """
    if overlay.transport not in (Transport.MPTCP, Transport.QUIC):
        return SwitchKind.NONE
    if overlay.switch is not None:
        return overlay.switch
    routes = (route for group in overlay.path_groups.values() for route in group.paths)
    automatic = overlay.paths is Paths.AUTOMATIC
    needed = automatic or any(map(has_transit, routes)) or any(leased(topology))
    return SwitchKind.BPF if needed else SwitchKind.NONE


def ip_versions(topology: Topology, overlay: Overlay) -> Mapping[Port, Literal[4, 6]]:
    """Give the version of IP of the tunnels' packets at each WAN port."""
    ports = topology.internet.ports if topology.internet else {}
    return {name: port.family or overlay.family for name, port in ports.items()}


def leased(topology: Topology) -> set[Port]:
    """Give the WAN ports that are leased lines."""
    ports = topology.internet.ports if topology.internet else {}
    return {name for name, port in ports.items() if port.type is PortType.LEASED}
