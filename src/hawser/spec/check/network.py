"""A network: its overlay on its ports, and what no lab has."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address

from hawser.spec.check.classifier import classifier
from hawser.spec.check.family import tunnels
from hawser.spec.check.nat import nats
from hawser.spec.check.network_functions import functions
from hawser.spec.check.overlay import overlay, overlay_on
from hawser.spec.check.pair import pairs
from hawser.spec.check.path_group import path_groups
from hawser.spec.check.policy import policy
from hawser.spec.errors import choices, found
from hawser.spec.network import Address, Network, topology
from hawser.spec.overlay import Encryption, SwitchKind, Transport
from hawser.spec.policy_groups import policy_groups
from hawser.spec.port import Port
from hawser.spec.prefixes import Prefixes
from hawser.spec.topology import PortType
from hawser.spec.validate import Issue


def network(network: Network) -> Iterator[Issue]:
    """Find all errors of a network."""
    yield from overlay(network.overlay)
    yield from _transport(network)
    yield from _lan_ports(network)
    yield from _ports(network)
    yield from _versions(network)
    yield from _second_addresses(network)
    yield from _prefixes(network)
    like = topology(network)
    misfits = list(overlay_on(like, network.overlay))
    yield from misfits
    wrong = list(path_groups(like, network.overlay))
    yield from wrong
    if not misfits:
        yield from classifier(like, network.overlay)
        refused = list(policy(network))
        yield from refused
        yield from functions(network)
        yield from pairs(network)
        yield from tunnels(like, network.overlay)
        if not wrong and not refused:
            yield from nats(like, network.overlay, policy_groups(network))


def _transport(network: Network) -> Iterator[Issue]:
    """Over the public internet gateways have to know each other."""
    settings = network.overlay
    if settings.transport not in (Transport.MPTCP, Transport.QUIC):
        message = (
            f"found {settings.transport.value}, expected mptcp or quic: a network is encrypted"
        )
        yield Issue(("overlay", "transport"), message)
    if settings.transport is Transport.MPTCP and settings.encryption is Encryption.NONE:
        message = "found none, expected tls13: a network is encrypted"
        yield Issue(("overlay", "encryption"), message)
    if settings.switch is SwitchKind.OPENFLOW and settings.transport is not Transport.QUIC:
        message = f"found openflow with the {settings.transport.value} transport, expected quic"
        yield Issue(("overlay", "switch"), f"{message}: agents move no MPTCP endpoints")


def _lan_ports(network: Network) -> Iterator[Issue]:
    for name, branch in network.overlay.branches.items():
        if branch.lan in branch.wan:
            message = f"found {found(branch.lan)}, a WAN port of {branch.gateway} too"
            yield Issue(("overlay", "branches", name, "lan"), message)


def _ports(network: Network) -> Iterator[Issue]:
    gateways = [branch.gateway for branch in network.overlay.branches.values()]
    gateways += [second.gateway for second in network.pairs.values()]
    addresses: dict[tuple[Address, str | None], Port] = {}
    """By address, and by gateway behind a NAT, where others may have the same."""
    interfaces: dict[tuple[str, str], Port] = {}
    for port, line in network.ports.items():
        if port.node not in gateways:
            message = f"found port {port} of a gateway that no branch has"
            yield Issue(("ports", port), f"{message}; {choices(gateways, port.node)}", key=True)
        interface = line.interface or port.name
        other = interfaces.setdefault((port.node, interface), port)
        if other != port:
            yield Issue(("ports", port, "interface"), f"found {interface}, that of {other} too")
        for field in ("address", "second"):
            address = getattr(line, field)
            if address is None:
                continue
            owner = addresses.setdefault((address, port.node if line.behind_nat else None), port)
            if owner != port or (field == "second" and address == line.address):
                yield Issue(("ports", port, field), f"found {address}, an address of {owner} too")
        if line.behind_nat and line.type is PortType.LEASED:
            message = "found true at a leased line, expected false"
            yield Issue(("ports", port, "behind_nat"), message)
        if line.behind_nat and line.address.version == 6:
            message = "found true at a line of IPv6, expected false"
            yield Issue(("ports", port, "behind_nat"), message)
        if line.next_hop in (line.address, line.second):
            message = f"found {line.next_hop}, the port's own address, expected a router's"
            yield Issue(("ports", port, "next_hop"), message)


def _versions(network: Network) -> Iterator[Issue]:
    """A line's addresses are of one version of IP, and others reach them."""
    for port, line in network.ports.items():
        version = line.address.version
        if line.next_hop.version != version:
            message = f"found {line.next_hop}, expected one of IPv{version}, as address is"
            yield Issue(("ports", port, "next_hop"), message)
        for field, address in (("address", line.address), ("next_hop", line.next_hop)):
            if isinstance(address, IPv6Address) and (wanted := _instead(field, address)):
                yield Issue(("ports", port, field), f"found {address}, expected {wanted}")
        if line.second is not None and version == 6:
            message = f"found {line.second}, expected none: with IPv6 `address` accepts connections"
            yield Issue(("ports", port, "second"), message)


def _instead(field: str, address: IPv6Address) -> str | None:
    """Say what is expected in the place of an IPv6 address that a line cannot have."""
    if address.scope_id is not None:
        return "it without its zone"
    if field == "address" and address.is_link_local:
        return "one that more than neighbours reach"
    return None


def _second_addresses(network: Network) -> Iterator[Issue]:
    """With `mptcp` a gateway cannot connect from the address at which it accepts connections."""
    overlay = network.overlay
    if overlay.transport is not Transport.MPTCP:
        return
    by_number = sorted(overlay.branches.values(), key=lambda branch: branch.id)
    for branch in by_number[1:-1]:
        for port in branch.wan_ports:
            line = network.ports.get(port)
            if line is not None and line.second is None and line.address.version == 4:
                message = "found none, expected an address: this gateway connects and listens"
                yield Issue(("ports", port, "second"), message)


def _prefixes(network: Network) -> Iterator[Issue]:
    branches = network.overlay.branches
    taken = Prefixes()
    for name, branch in branches.items():
        taken.add(name, branch.prefix)
    for name, prefixes in network.prefixes.items():
        if name not in branches:
            message = f"found {name}, which is no branch; {choices(branches, name)}"
            yield Issue(("prefixes", name), message, key=True)
        for index, prefix in enumerate(prefixes):
            for owner, other in taken.overlapping(prefix):
                message = f"found {prefix}, which overlaps {other} of branch {owner}"
                yield Issue(("prefixes", name, index), message)
            taken.add(name, prefix)
    for port, line in network.ports.items():
        for owner, other in taken.containing(line.address):
            message = f"found {line.address}, which is in {other} behind branch {owner}"
            yield Issue(("ports", port, "address"), message)
