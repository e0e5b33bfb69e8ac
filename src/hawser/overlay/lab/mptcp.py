"""Endpoints of the kernel's MPTCP path manager, for connections over the internet.

On gateways the daemon is the path manager (in user space) and creates the subflows. End-to-end
connections use the kernel's path manager, whose endpoints create a subflow on every pair of WAN
ports. The connecting side needs endpoints with `fullmesh`, the listening side needs `signal`, and
the kernel refuses both for one address. A node that does both therefore has a second address on
each WAN port, on which it listens.

An endpoint with an interface binds its subflows to it. With a switch, subflows arrive by the port
of their path, which may be any port, so endpoints have no interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.overlay.lab.address import Addresses, WanAccess
from hawser.overlay.lab.plan import MptcpEndpoint
from hawser.spec.multipath import Subflows


def endpoints(
    flows: Subflows, addresses: Addresses, *, switched: bool
) -> Mapping[str, tuple[MptcpEndpoint, ...]]:
    """Give the endpoints of every node that uses the kernel's path manager."""
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
