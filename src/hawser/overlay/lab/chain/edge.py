"""Which ports are inside the domain of chains, and which have hosts behind them.

Packets with an NSH or to a segment are accepted at the former only (RFC 8300 section 8, RFC 8754
section 5.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hawser.overlay.lab.chain.additions import Additions
from hawser.overlay.lab.chain.layout import Layout
from hawser.spec.chain import Encapsulation, Steering
from hawser.spec.port import Port
from hawser.spec.service_path import ServicePath
from hawser.spec.topology import node_ports
from hawser.spec.way import Hop


def steered_legs(sfp: ServicePath) -> Iterator[tuple[Hop, ...]]:
    """Give the legs on which packets have chain headers: not empty, and not through a tunnel."""
    for leg, tunnelled in zip(sfp.legs, sfp.tunnelled, strict=False):
        if leg and not tunnelled:
            yield leg


def inside(sfp: ServicePath) -> Iterator[Port]:
    """Give both ends of the links on which packets of a service path have chain headers."""
    yield from _ends(hop for leg in steered_legs(sfp) for hop in leg)


def close(layout: Layout, added: Additions) -> None:
    """Refuse segments at the outer ports of all nodes that SRv6 packets pass."""
    every = [(steered, sfp) for steered, _, sfp in layout.by(Steering.SRV6)]
    trusted = {end for _, sfp in every for end in inside(sfp)}
    for steered, sfp in every:
        if steered.chain.encapsulation is Encapsulation.INSERTED:
            trusted |= set(_ends(sfp.legs[-1][:-1]))  # an inserted header stays on the packet
    passed = {node for _, sfp in every for node in (sfp.classifier, *sfp.nodes)}
    for node in passed | {end.node for end in trusted}:
        outer = (port.name for port in node_ports(layout.topology)[node] if port not in trusted)
        added.untrusted[node] += sorted(outer)


def _ends(hops: Iterable[Hop]) -> Iterator[Port]:
    for hop in hops:
        yield from (hop.port, hop.neighbour)
