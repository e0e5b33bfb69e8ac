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
from hawser.spec.multipath import measured_ends, tunnel_ends
from hawser.spec.overlay import SwitchKind
from hawser.spec.route import switch_kind
from hawser.spec.topology import wan_ports
from hawser.spec.workflow import Scenario


def roles(scenario: Scenario) -> tuple[set[str], set[str]]:
    """Give the nodes that open MPTCP connections over the internet, and those that take them."""
    connects, listens = map(set, tunnel_ends(scenario))
    for _, source, target in measured_ends(scenario):
        connects.add(source)
        listens.add(target)
    return connects, listens


def managed(scenario: Scenario) -> set[str]:
    """Give the gateways whose daemon makes the subflows."""
    measured = {node for _, *ends in measured_ends(scenario) for node in ends}
    return {node for ends in tunnel_ends(scenario) for node in ends} - measured


def endpoints(scenario: Scenario, addresses: Addresses) -> Mapping[str, tuple[MptcpEndpoint, ...]]:
    """Give the endpoints of every node that needs some."""
    connects, listens = roles(scenario)
    overlay = scenario.overlay
    kernel = (connects | listens) - managed(scenario)
    bound = overlay is None or switch_kind(scenario.topology, overlay) is SwitchKind.NONE
    return {
        node: tuple(
            endpoint
            for port in ports
            for endpoint in _endpoints(
                port.partition(".")[2] if bound else None,
                addresses.wan[port],
                connects=node in connects,
                listens=node in listens,
            )
        )
        for node, ports in wan_ports(scenario.topology).items()
        if node in kernel
    }


def _endpoints(
    interface: str | None, access: WanAccess, *, connects: bool, listens: bool
) -> Iterator[MptcpEndpoint]:
    if connects:
        yield MptcpEndpoint(
            address=access.port.ip, interface=interface, flags=("subflow", "fullmesh")
        )
    if listens:
        yield MptcpEndpoint(address=access.listen.ip, interface=interface, flags=("signal",))
