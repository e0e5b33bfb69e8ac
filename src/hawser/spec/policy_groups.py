"""What follows from a network's policy: path groups, and rules of the classifier.

A gateway sends a flow over a usable group of its class, and over any usable group where there
is none. So with labels or thresholds each class has a group of its own over its paths, and the
group of the other class carries it when all of them fail (`otherwise: any`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal

from hawser.spec.access import may_talk
from hawser.spec.nat import direct_ports
from hawser.spec.network import Network
from hawser.spec.overlay import ClassRule, PathGroup, Paths, TrafficType
from hawser.spec.policy import Application
from hawser.spec.port import Port
from hawser.spec.route import route_branches

Carried = Literal[TrafficType.I, TrafficType.II]
_CARRIED: tuple[Carried, ...] = (TrafficType.II, TrafficType.I)
"""Classes that go to other branches, in the order of their groups."""


def policy_pairs(network: Network) -> Iterator[tuple[str, str]]:
    """Give the pairs of branches whose groups follow from the policy: those with no other ones."""
    if network.overlay.paths is Paths.AUTOMATIC:
        return  # the path program chooses what offers the thresholds, and labels are refused
    if not any(each.labels or each.sla for each in network.policy.values()):
        return
    overlay = network.overlay
    described = {frozenset(route_branches(each.paths[0])) for each in overlay.path_groups.values()}
    for pair in combinations(overlay.branches, 2):
        hub = not overlay.hubs or not set(overlay.hubs).isdisjoint(pair)
        if hub and may_talk(overlay.access, *pair) and frozenset(pair) not in described:
            yield pair


def policy_groups(network: Network) -> tuple[PathGroup, ...]:
    """Give the path groups that follow from a checked network's policy."""
    pairs = policy_pairs(network)
    return tuple(group for pair in pairs for group in _groups(network, pair))


def _groups(network: Network, pair: tuple[str, str]) -> Iterator[PathGroup]:
    for number, traffic in enumerate(_CARRIED):
        paths = compliant(network, pair, traffic)
        yield PathGroup.model_validate({"id": number, "class": traffic, "paths": paths})


def compliant(network: Network, pair: tuple[str, str], traffic: TrafficType) -> tuple[str, ...]:
    """Give the direct paths of two branches that a class may use."""
    policy = network.policy.get(traffic)
    labels = set(policy.labels) if policy else set[str]()
    return tuple(
        route
        for route, ends in direct(network, pair).items()
        if not labels or all(network.ports[port].label in labels for port in ends)
    )


def direct(network: Network, pair: tuple[str, str]) -> Mapping[str, tuple[Port, Port]]:
    """Give direct paths of two branches with their ports. Leased ports reach only leased ones."""
    behind = {port for port, line in network.ports.items() if line.behind_nat}
    versions = {port: line.address.version for port, line in network.ports.items()}
    found = {
        f"{pair[0]}.{a.name}>{pair[1]}.{b.name}": (a, b)
        for a, b in direct_ports(network.overlay, pair, behind, versions)
        if a in network.ports and b in network.ports
    }
    return {
        route: ends
        for route, ends in found.items()
        if len({network.ports[port].type for port in ends}) == 1
    }


def policy_classes(network: Network) -> Mapping[str, ClassRule]:
    """Give all rules of the classifier: those of the overlay, then those of applications."""
    rules = dict(network.overlay.classes)
    for traffic in TrafficType:
        policy = network.policy.get(traffic)
        for name in policy.applications if policy else ():
            if name in network.applications:
                rules |= _rules(name, network.applications[name], traffic)
    return rules


def _rules(name: str, found: Application, traffic: TrafficType) -> Mapping[str, ClassRule]:
    """Match what goes to the servers, and at their own branch what comes from them."""
    rules: dict[str, ClassRule] = {}
    anywhere = () if found.names else (None,)  # names may have no addresses yet
    for number, address in enumerate(found.addresses or anywhere):
        there = ClassRule(
            destination=address,
            protocol=found.protocol,
            destination_ports=found.ports,
            type=traffic,
        )
        rules[f"{name}-{number}-to"] = there
        back = there.turned()
        if back != there:
            rules[f"{name}-{number}-from"] = ClassRule(**dict(back), type=traffic)
    return rules
