"""Segments and lists of them (RFC 8986 section 3.1).

5f00:0:N::/48        node N
5f00:0:N:F::1        function F, at node N
5f00:0:N:F::2        the same, at its proxy, for the reverse direction
5f00:0:N:F::3        the same, at its node, which forwards packets to it (End.X)
5f00:0:N::C          last segment of service path C
5f00:0:N::6:C        the same for IPv6 packets, except with End.DT46
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from typing import Literal

from hawser.overlay.lab.chain.layout import Instance, Layout, SteeredChain
from hawser.spec.address import SEGMENTS
from hawser.spec.chain import FunctionSegment, LastSegment
from hawser.spec.service_path import ServicePath

Family = Literal[4, 6]
"""Of IP packets."""

_NODE, _FUNCTION = 80, 64
"""Bits to the right of a node's and of a function's number in a segment."""
_OWN, _ANSWERS, _CROSS_CONNECT = 1, 2, 3
"""Segments of a function."""
_IPV6 = 6 << 16
"""Added to the last segment for IPv6 packets."""


def segments(
    layout: Layout, steered: SteeredChain, number: int, *, family: Family = 4
) -> tuple[IPv6Address, ...]:
    """Give the segment list of a service path, in the order in which its packets pass."""
    sfp = steered.service_paths[number]
    functions = (layout.instances[name][0] for name in sfp.functions)
    passed = (of_function(layout, steered, sfp, each) for each in functions)
    return (*passed, last(layout, steered, number, family))


def locator(layout: Layout, node: str) -> IPv6Network:
    """Give the locator of a node: the prefix of all its segments and of its functions' segments."""
    number = list(layout.topology.nodes).index(node) + 1
    return IPv6Network((int(SEGMENTS.network_address) + (number << _NODE), 128 - _NODE))


def of_function(
    layout: Layout, steered: SteeredChain, sfp: ServicePath, instance: Instance
) -> IPv6Address:
    """Give the segment of a function in a service path; a proxy has one for each direction."""
    which = _OWN
    if instance.proxy:
        which = _ANSWERS if sfp.direction == "reverse" else _OWN
    elif steered.chain.segments.function is FunctionSegment.CROSS_CONNECT:
        which = _CROSS_CONNECT
    network = locator(layout, instance.node).network_address
    return network + (instance.number << _FUNCTION) + which


def last(layout: Layout, steered: SteeredChain, number: int, family: Family) -> IPv6Address:
    """Give the last segment of a service path for packets of a family."""
    own = family == 6 and steered.chain.segments.last is not LastSegment.ONE_TABLE
    node = locator(layout, steered.service_paths[number].last).network_address
    return node + number + (_IPV6 if own else 0)
