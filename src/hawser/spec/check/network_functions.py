"""Service functions of a network: where they are, and which classes pass them."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import combinations

from hawser.spec.access import may_talk
from hawser.spec.errors import choices
from hawser.spec.explain import Loc
from hawser.spec.network import FunctionPort, Network
from hawser.spec.overlay import TrafficType
from hawser.spec.policy import ClassPolicy
from hawser.spec.validate import Issue


def functions(network: Network) -> Iterator[Issue]:
    """Find all errors of a network's service functions and chains."""
    yield from _places(network)
    for traffic, wanted in network.policy.items():
        if wanted.chain:
            loc: Loc = ("policy", traffic.value, "chain")
            unknown = list(_unknown(network, loc, wanted))
            yield from unknown
            yield from _possible(network, loc, traffic)
            if not unknown:
                yield from _everywhere(network, loc, wanted)


def _places(network: Network) -> Iterator[Issue]:
    taken: dict[tuple[str, str], str] = {}
    for name, places in network.functions.items():
        for branch, place in places.items():
            loc: Loc = ("functions", name, branch)
            if branch not in network.overlay.branches:
                message = f"found {branch}, which is no branch; "
                yield Issue(loc, message + choices(network.overlay.branches, branch), key=True)
                continue
            yield from _interfaces(network, loc, (name, branch), place, taken)
            if (place.return_interface is None) != (place.return_next_hop is None):
                message = "expected return_interface and return_next_hop together"
                yield Issue((*loc, "return_next_hop"), message)


def _interfaces(
    network: Network,
    loc: Loc,
    owner: tuple[str, str],
    place: FunctionPort,
    taken: dict[tuple[str, str], str],
) -> Iterator[Issue]:
    """By the interface by which a packet arrives a gateway knows what it has passed."""
    name, branch = owner
    described = network.overlay.branches[branch]
    wan = {network.ports[port].interface or port.name for port in described.wan_ports}
    used = {described.lan: "the LAN"} | dict.fromkeys(wan, "the WAN")
    for field in ("interface", "return_interface"):
        interface = getattr(place, field)
        if interface is None:
            continue
        if field == "return_interface" and interface == place.interface:
            message = f"found {interface} twice: leave both return fields out"
            yield Issue((*loc, field), message)
            continue
        other = used.get(interface) or taken.get((branch, interface))
        if other is not None:
            message = f"found {interface}, which leads to {other}: expected one of its own"
            yield Issue((*loc, field), message)
        taken[branch, interface] = f"function {name}"


def _unknown(network: Network, loc: Loc, wanted: ClassPolicy) -> Iterator[Issue]:
    for index, name in enumerate(wanted.chain):
        if name not in network.functions:
            message = f"found {name}, which is no function; {choices(network.functions, name)}"
            yield Issue((*loc, index), message)
        if name in wanted.chain[:index]:
            yield Issue((*loc, index), f"found {name} twice: packets pass a function once")


def _possible(network: Network, loc: Loc, traffic: TrafficType) -> Iterator[Issue]:
    if traffic is TrafficType.III:
        message = "expected class I or II: what leaves by the internet passes no functions of a"
        yield Issue(loc, f"{message} gateway")
    if network.overlay.tcp_proxy:
        message = "the TCP proxy takes connections before they could pass a function: expected no"
        yield Issue(loc, f"{message} overlay.tcp_proxy")
    if network.pairs:
        yield Issue(loc, "functions are at first gateways only: expected no pairs beside a chain")
    for branch, prefixes in network.prefixes.items():
        if any(not isinstance(each, IPv4Network) for each in prefixes):
            message = f"functions have IPv4 next hops, and branch {branch} has IPv6 prefixes"
            yield Issue(loc, message)
            return


def _everywhere(network: Network, loc: Loc, wanted: ClassPolicy) -> Iterator[Issue]:
    """Check that of each two branches one has the chain: its traffic would pass no function."""
    having = [network.functions[name].keys() for name in dict.fromkeys(wanted.chain)]
    without = list[str]()
    for branch in network.overlay.branches:
        here = [branch in places for places in having]
        if any(here) and not all(here):
            message = f"branch {branch} has a part of these functions, expected all or none"
            yield Issue(loc, message)
            return
        if not any(here):
            without.append(branch)
    overlay, hubs = network.overlay, set(network.overlay.hubs)
    for one, other in combinations(without, 2):
        if may_talk(overlay.access, one, other) and (not hubs or one in hubs or other in hubs):
            message = f"neither {one} nor {other} has these functions, so that what they exchange"
            yield Issue(loc, f"{message} would pass none")
            return
