"""Applications whose servers have DNS names: which addresses of a name become rules. Pure.

A gateway's classifier decides between branches only; everything else leaves by the internet anyway.
So an address is used where it is behind a branch. An answer of DNS must not send what is
between two LANs to the internet: for class III, addresses of branches' LANs are not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from hawser.spec.match import RULES
from hawser.spec.network import Network
from hawser.spec.overlay import TrafficType
from hawser.spec.policy_groups import policy_classes
from hawser.spec.prefixes import Prefixes

MAX_ADDRESSES = 16
"""Addresses of one name."""

Resolved = Mapping[str, Iterable[IPv4Address]]
"""Addresses of DNS names."""
_RULES_EACH = 2
"""Rules of an address: to the server, and from it."""


def names_of(network: Network) -> Mapping[str, TrafficType]:
    """Give the applications with DNS names that are of some class."""
    return {
        name: traffic
        for traffic in TrafficType
        if (policy := network.policy.get(traffic))
        for name in policy.applications
        if name in network.applications and network.applications[name].names
    }


def used_addresses(
    network: Network, resolved: Resolved
) -> Mapping[str, Mapping[str, tuple[IPv4Address, ...]]]:
    """Give the addresses that become rules, by application and name.

    Where a classifier has too few rules for all of them, each name gets some.
    """
    lans, behind = _prefixes(network)
    queues = {
        (application, name): iter(
            address
            for address in sorted(set(resolved.get(name, ())))[:MAX_ADDRESSES]
            if any(behind.containing(address))
            and not (traffic is TrafficType.III and any(lans.containing(address)))
        )
        for application, traffic in names_of(network).items()
        for name in network.applications[application].names
    }
    free = (RULES - len(policy_classes(network))) // _RULES_EACH
    found: dict[str, dict[str, tuple[IPv4Address, ...]]] = {}
    for (application, name), address in _in_turn(queues, free):
        names = found.setdefault(application, {})
        names[name] = (*names.get(name, ()), address)
    return found


def _prefixes(network: Network) -> tuple[Prefixes, Prefixes]:
    """Give the LANs of branches, and all prefixes behind them."""
    lans, behind = Prefixes(), Prefixes()
    for name, branch in network.overlay.branches.items():
        lans.add(name, branch.prefix)
        for prefix in (branch.prefix, *network.prefixes.get(name, ())):
            behind.add(name, prefix)
    return lans, behind


def _in_turn(
    queues: Mapping[tuple[str, str], Iterator[IPv4Address]], most: int
) -> Iterator[tuple[tuple[str, str], IPv4Address]]:
    """Give one address of each queue, then the next of each, until there are as many as allowed."""
    for _ in range(MAX_ADDRESSES):
        for key, queue in queues.items():
            address = next(queue, None)
            if address is None:
                continue
            if not most:
                return
            most -= 1
            yield key, address


def with_addresses(network: Network, resolved: Resolved) -> Network:
    """Give a network whose applications have the addresses of their names, too."""
    used = used_addresses(network, resolved)
    if not used:
        return network
    applications = dict(network.applications)
    for application, names in used.items():
        described = applications[application]
        hosts = (IPv4Network(each) for addresses in names.values() for each in addresses)
        new = [each for each in collapse_addresses(hosts) if each not in described.addresses]
        applications[application] = described.model_copy(
            update={"addresses": (*described.addresses, *new)}
        )
    return network.model_copy(update={"applications": applications})
