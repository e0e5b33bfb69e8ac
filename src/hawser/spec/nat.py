"""Ports behind NATs, and the default paths of branches that have some.

The rendezvous tells each of two gateways where it sees the other on paths of the same position in
their groups (docs/design/addresses.md). So where two gateways are introduced, the path of each
position begins at the same port as that one's to the rendezvous.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Literal, TypeVar

from hawser.spec.overlay import Overlay
from hawser.spec.port import Port
from hawser.spec.topology import Topology

T = TypeVar("T")


def behind_nats(topology: Topology) -> set[Port]:
    """Give the WAN ports that are behind a NAT."""
    ports = topology.internet.ports if topology.internet else {}
    return {name for name, port in ports.items() if port.nat is not None}


def port_pairs(
    first: Sequence[T], second: Sequence[T], *, rendezvous: bool, introduced: bool
) -> list[tuple[T, T]]:
    """Give the pairs of ports that the default paths of two branches join, in their order.

    Args:
        first: ports of the branch with the lower number.
        second: those of the other.
        rendezvous: whether the other is the rendezvous, to which the first paths lead from each
            port in turn.
        introduced: whether the rendezvous introduces the two, which then have a path between ports
            of the same position only.
    """
    if rendezvous:
        turns = range(len(second))
        return [
            (port, second[(place + turn) % len(second)])
            for turn in turns
            for place, port in enumerate(first)
        ]
    return list(zip(first, second, strict=False) if introduced else product(first, second))


def direct_ports(
    overlay: Overlay,
    pair: tuple[str, str],
    behind: Collection[Port],
    versions: Mapping[Port, Literal[4, 6]],
) -> list[tuple[Port, Port]]:
    """Give the ends of the default paths between two branches, in the order of the pair.

    Args:
        overlay: the SD-WAN.
        pair: the branches.
        behind: WAN ports behind NATs.
        versions: versions of IP at WAN ports; those of unknown ones are taken to fit.
    """
    return [
        (a, b)
        for a, b in _pairs(overlay, pair, behind)
        if a not in versions or b not in versions or versions[a] == versions[b]
    ]


def _pairs(
    overlay: Overlay, pair: tuple[str, str], behind: Collection[Port]
) -> list[tuple[Port, Port]]:
    one, other = (overlay.branches[name] for name in pair)
    if overlay.rendezvous is None:
        return list(product(one.wan_ports, other.wan_ports))
    if one.id > other.id:
        return [(b, a) for a, b in _pairs(overlay, (pair[1], pair[0]), behind)]
    return port_pairs(
        one.wan_ports,
        other.wan_ports,
        rendezvous=pair[1] == overlay.rendezvous,
        introduced=not set(other.wan_ports).isdisjoint(behind),
    )
