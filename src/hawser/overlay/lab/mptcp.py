"""Who makes the subflows of Multipath TCP connections over the internet.

Gateways make their own: the path manager of their namespace is the one in user space, which is the
daemon. Where connections are measured end to end it is the kernel's, with endpoints: a subflow on
every pair of WAN ports. The side that connects needs endpoints with `fullmesh`, the side that
listens needs `signal`, and the kernel refuses both for one address. So a node that does both has a
second address on each WAN port, on which it listens.

An endpoint with an interface binds its subflows to it. With a switch they come in by the port of
their path, whichever that is, so there endpoints have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.overlay.lab.address import Addresses, WanAccess
from hawser.overlay.lab.plan import MptcpEndpoint
from hawser.spec.multipath import Subflows


def endpoints(
    flows: Subflows, addresses: Addresses, *, switched: bool
) -> Mapping[str, tuple[MptcpEndpoint, ...]]:
    """Give the endpoints of every node that needs some."""
    kernel = (flows.connects | flows.listens) - flows.managed
    found: dict[str, tuple[MptcpEndpoint, ...]] = {}
    for port, access in addresses.wan.items():
        if port.node in kernel:
            made = _endpoints(
                None if switched else port.name,
                access,
                connects=port.node in flows.connects,
                listens=port.node in flows.listens,
            )
            found[port.node] = (*found.get(port.node, ()), *made)
    return found


def _endpoints(
    interface: str | None, access: WanAccess, *, connects: bool, listens: bool
) -> Iterator[MptcpEndpoint]:
    if connects:
        yield MptcpEndpoint(
            address=access.port.ip, interface=interface, flags=("subflow", "fullmesh")
        )
    if listens:
        yield MptcpEndpoint(address=access.listen.ip, interface=interface, flags=("signal",))
