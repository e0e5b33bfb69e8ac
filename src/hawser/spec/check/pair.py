"""Pairs of gateways: what has to be described, and what excludes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from hawser.spec.errors import choices
from hawser.spec.explain import Loc
from hawser.spec.network import Network, SecondGateway
from hawser.spec.overlay import MAX_PATHS, Branch, Overlay, Paths, Transport
from hawser.spec.port import Port
from hawser.spec.route import route_branches
from hawser.spec.validate import Issue


def pairs(network: Network) -> Iterator[Issue]:
    """Find all errors of a network's pairs of gateways."""
    if not network.pairs:
        return
    yield from _excluded(network)
    branches = network.overlay.branches
    taken = {branch.gateway: f"branch {name}" for name, branch in branches.items()}
    for name, second in network.pairs.items():
        loc: Loc = ("pairs", name)
        if name not in branches:
            message = f"found {name}, which is no branch; {choices(branches, name)}"
            yield Issue(loc, message, key=True)
            continue
        owner = taken.setdefault(second.gateway, f"pair {name}")
        if owner != f"pair {name}":
            yield Issue((*loc, "gateway"), f"found {second.gateway}, the gateway of {owner}")
        yield from _second(network, loc, branches[name], second)


def _excluded(network: Network) -> Iterator[Issue]:
    overlay = network.overlay
    place: Loc = ("pairs",)
    if overlay.transport is not Transport.QUIC:
        message = f"expected the transport quic, found {overlay.transport.value}"
        yield Issue(place, message)
    if overlay.tcp_proxy:
        message = "a proxied connection ends with its gateway: expected no overlay.tcp_proxy"
        yield Issue(place, message)
    if overlay.paths is Paths.AUTOMATIC:
        yield Issue(place, "the path program knows one gateway a branch: expected paths: manual")
    if overlay.rendezvous is not None:
        message = "the rendezvous knows one gateway a branch: expected no overlay.rendezvous"
        yield Issue(place, message)
    for traffic, policy in network.policy.items():
        if policy.labels or policy.sla:
            message = "the groups of policy.labels and policy.sla join first gateways only"
            yield Issue(("policy", traffic.value), f"{message}: expected neither beside pairs")
    yield from _numbers(network.overlay)


def _numbers(overlay: Overlay) -> Iterator[Issue]:
    """Check that the numbers of described groups are not those of groups of second gateways."""
    first = overlay.label_space.of_pairs
    counts: Counter[frozenset[str]] = Counter()
    for name, group in overlay.path_groups.items():
        pair = frozenset(route_branches(group.paths[0]))
        number = counts[pair] if group.id is None else group.id
        counts[pair] += 1
        if number >= first:
            loc: Loc = ("overlay", "path_groups", name)
            message = f"found the number {number}, expected less than {first}, the first of pairs"
            yield Issue(loc if group.id is None else (*loc, "id"), message, key=group.id is None)


def _second(network: Network, loc: Loc, branch: Branch, second: SecondGateway) -> Iterator[Issue]:
    if second.lan in second.wan:
        message = f"found {second.lan}, a WAN port of {second.gateway} too"
        yield Issue((*loc, "lan"), message)
    for index, name in enumerate(second.wan):
        port = Port(second.gateway, name)
        if port not in network.ports:
            message = f"found {name}, expected a port of {second.gateway} that is in ports"
            yield Issue((*loc, "wan", index), message)
        if name in second.wan[:index]:
            yield Issue((*loc, "wan", index), f"found {name} twice")
        if port in network.ports and network.ports[port].behind_nat and _accepts(network, branch):
            message = (
                f"found true, but gateways of lower numbers than {branch.id} connect to this one"
            )
            yield Issue(("ports", port, "behind_nat"), message)
    first = branch.prefix.network_address + 1
    if second.address not in branch.prefix or second.address == first:
        message = f"found {second.address}, expected an address in {branch.prefix} other than"
        yield Issue((*loc, "address"), f"{message} {first}, the first gateway's")
    every = [each.wan for each in network.overlay.branches.values()]
    every += [each.wan for each in network.pairs.values()]
    most = max((len([*product(second.wan, wan)]) for wan in every), default=0)
    if most > MAX_PATHS:
        message = f"found {most} paths to another gateway, expected at most {MAX_PATHS}"
        yield Issue((*loc, "wan"), message)


def _accepts(network: Network, branch: Branch) -> bool:
    return any(other.id < branch.id for other in network.overlay.branches.values())
