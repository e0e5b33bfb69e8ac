"""Why a flow goes the way it does: from the classifier to the hops of its paths. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final, Literal

from hawser.controller.errors import Invalid
from hawser.controller.telemetry.latest import Statistics
from hawser.overlay.config.gateway import Carried
from hawser.overlay.sdwan.automatic import automatic_pairs
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.group import Group, Path
from hawser.overlay.sdwan.steering import steering
from hawser.spec.match import Match
from hawser.spec.network import Network
from hawser.spec.overlay import TrafficType
from hawser.spec.pair import branch_of
from hawser.spec.policy_groups import policy_classes, policy_pairs
from hawser.spec.route import hops, route_branches, turned
from hawser.spec.validate import Issue

Protocol = Literal["tcp", "udp", "icmp"]
_METRICS: Final = ("rate", "capacity", "rtt", "jitter", "loss", "queue", "share", "up")


@dataclass(frozen=True)
class Flow:
    """Packets to ask about."""

    source: IPv4Address
    destination: IPv4Address
    protocol: Protocol | None = None
    port: int | None = None
    """Destination port."""


@dataclass(frozen=True)
class Member:
    """A member path, from the flow's source, with what its gateway measures."""

    number: int
    path: str
    values: Mapping[str, float]
    """By metric, in the units of series (`hawser.control.series`)."""


@dataclass(frozen=True)
class Carrier:
    """A group that may carry the flow."""

    number: int
    traffic: TrafficType
    origin: str
    """The line of the network's document that it comes from."""
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Trace:
    """The way of a flow."""

    source: str | None
    """Branch of the source; None for addresses of no branch."""
    destination: str | None
    rule: str | None
    """The rule of the classifier that decided; None where none matched."""
    traffic: TrafficType
    carriers: tuple[Carrier, ...]
    steps: tuple[str, ...]
    """The same in sentences, in the order in which gateways decide."""


def end_of(network: Network, text: str, field: str) -> IPv4Address:
    """Give the address of an end of a flow: an address, or the first host of a branch.

    Raises:
        Invalid: it is neither.
    """
    if text in network.overlay.branches:
        return network.overlay.branches[text].prefix.network_address + 2
    try:
        return IPv4Address(text)
    except ValueError as error:
        message = f"found {text!r}, expected an IPv4 address or the name of a branch"
        raise Invalid([Issue(("query", field), message)]) from error


def trace(network: Network, fabric: Fabric, reports: Sequence[Statistics], flow: Flow) -> Trace:
    """Follow a flow.

    Args:
        network: the network in force.
        fabric: the same, resolved.
        reports: the gateways' newest ones.
        flow: the packets asked about.
    """
    source, destination = (_branch(fabric, end) for end in (flow.source, flow.destination))
    rule, traffic = _classified(network, destination, flow)
    if source is not None and source == destination:
        step = f"both ends are in branch {source}: its gateway has no part in it"
        return Trace(source, destination, None, traffic, (), (step,))
    steps = [_ends(flow, source, destination), _class(network, rule, traffic, destination)]
    if source is None or destination is None or traffic is TrafficType.III:
        if source is not None:
            steps.append("Type III leaves by the ports of type internet of its own branch")
        return Trace(source, destination, rule, traffic, (), tuple(steps))
    steps += _functions(fabric, (source, destination), traffic)
    groups = _candidates(fabric, source, destination, traffic)
    report = next((each for each in reports if each.branch == source), None)
    carriers = tuple(_carrier(network, group, source, report) for group in groups)
    steps += _thresholds(network, traffic)
    steps += _told(fabric, traffic, carriers, source, destination)
    return Trace(source, destination, rule, traffic, carriers, tuple(steps))


def _branch(fabric: Fabric, address: IPv4Address) -> str | None:
    found = (
        (prefix.prefixlen, name)
        for name, branch in fabric.branches.items()
        for prefix in branch.prefixes
        if address in prefix
    )
    name = max(found, default=(0, None))[1]
    return None if name is None else branch_of(name)


def _classified(
    network: Network, destination: str | None, flow: Flow
) -> tuple[str | None, TrafficType]:
    """Give the first rule that matches, as gateways do, and the class."""
    if destination is None:
        return None, TrafficType.III
    for name, rule in policy_classes(network).items():
        if _matches(rule, flow):
            return name, rule.type
    return None, TrafficType.II


def _matches(rule: Match, flow: Flow) -> bool:
    """Tell whether a rule matches what is known of the flow. Its source port and DSCP are not."""
    if rule.source_ports is not None or rule.dscp is not None:
        return False
    ports = rule.destination_ports
    in_ports = ports is None or (flow.port is not None and ports[0] <= flow.port <= ports[1])
    return (
        (rule.source is None or flow.source in rule.source)
        and (rule.destination is None or flow.destination in rule.destination)
        and (rule.protocol is None or rule.protocol == flow.protocol)
        and in_ports
    )


def _functions(fabric: Fabric, ends: tuple[str, str], traffic: Carried) -> Iterator[str]:
    """Say which service functions the flow passes."""
    for place, branch in zip(("leaving", "entering"), ends, strict=True):
        chains = steering(fabric, branch)
        passed = chains.chains.get(traffic, ()) if chains else ()
        names = [each.name for each in passed]
        if names:
            text = ", ".join(names if place == "leaving" else reversed(names))
            yield f"{place} {branch} it passes {text} (policy.{traffic.value}.chain)"


def _candidates(
    fabric: Fabric, source: str, destination: str, traffic: TrafficType
) -> tuple[Group, ...]:
    """Give the groups of the class; any where it has none."""
    groups = fabric.to(source, destination)
    return tuple(group for group in groups if group.traffic is traffic) or groups


def _carrier(network: Network, group: Group, source: str, report: Statistics | None) -> Carrier:
    values = dict(zip(report.names, report.values, strict=True)) if report else {}
    peer = group.branches[1] if group.branches[0] == source else group.branches[0]
    members = (
        Member(
            number,
            _route(path, turn=group.branches[0] != source),
            dict(_values(values, f"path/{peer}/{group.number}/{number}")),
        )
        for number, path in enumerate(group.paths)
    )
    return Carrier(group.number, group.traffic, _origin(network, group), tuple(members))


def _values(values: Mapping[str, float], about: str) -> Iterator[tuple[str, float]]:
    for metric in _METRICS:
        value = values.get(f"{about}/{metric}", math.nan)
        if not math.isnan(value):
            yield metric, value


def _route(path: Path, *, turn: bool) -> str:
    route = ">".join(f"{stop.branch}.{stop.port}" for hop in path.hops for stop in hop)
    return turned(route) if turn else route


def _origin(network: Network, group: Group) -> str:
    """Give the line of the document that a group comes from."""
    pair = frozenset(group.branches)
    place = 0
    for name, each in network.overlay.path_groups.items():
        if frozenset(route_branches(each.paths[0])) == pair:
            if group.number == (place if each.id is None else each.id):
                return f"overlay.path_groups.{name}"
            place += 1
    if any(frozenset(found) == pair for found in automatic_pairs(network.overlay)):
        if network.overlay.paths.value == "automatic":
            return "overlay.paths: automatic"
        if any(frozenset(found) == pair for found in policy_pairs(network)):
            return f"policy.{group.traffic.value}.labels"
    return "default: all pairs of WAN ports"


def _ends(flow: Flow, source: str | None, destination: str | None) -> str:
    ends = ((flow.source, source), (flow.destination, destination))
    texts = (f"{address} is " + (f"in branch {b}" if b else "in no branch") for address, b in ends)
    return ", ".join(texts)


def _class(
    network: Network, rule: str | None, traffic: TrafficType, destination: str | None
) -> str:
    if destination is None:
        return "what goes to no branch is of Type III"
    if rule is None:
        return "no rule of the classifier matches: what goes to another branch is of Type II"
    found = "overlay.classes" if rule in network.overlay.classes else f"policy.{traffic.value}"
    return f"rule {rule} of {found} makes it Type {traffic.value}"


def _thresholds(network: Network, traffic: TrafficType) -> Iterator[str]:
    """Say what a path has to offer to the class."""
    policy = network.policy.get(traffic)
    if policy is None or policy.sla is None:
        return
    sla = policy.sla
    bounds = (
        ("rate at least {:.3g} Mbit/s", sla.rate, 1e-6),
        ("delay at most {:.3g} ms", sla.delay, 1e3),
        ("jitter at most {:.3g} ms", sla.jitter, 1e3),
        ("loss at most {:.3g} %", sla.loss, 1e2),
    )
    texts = [text.format(factor * value) for text, value, factor in bounds if value is not None]
    yield f"policy.{traffic.value}.sla asks of its paths: {', '.join(texts)}"


def _told(
    fabric: Fabric,
    traffic: TrafficType,
    carriers: Sequence[Carrier],
    source: str,
    destination: str,
) -> Iterator[str]:
    if not carriers:
        yield f"{source} and {destination} have no tunnel: the packets are dropped"
        return
    if all(each.traffic is not traffic for each in carriers):
        yield f"there is no group of Type {traffic.value}, so any group carries it"
    if len(carriers) > 1:
        policy = fabric.settings.placement.value
        yield f"placement {policy}: each flow stays on one of {len(carriers)} groups"
    for each in carriers:
        text = "each packet takes the path on which it arrives first"
        yield f"group {each.number} ({each.origin}): {text}"
        for member in each.members:
            yield f"path {member.number}: {member.path}{_told_of(member)}"


def _told_of(member: Member) -> str:
    length = len(hops(member.path))
    texts = [f"{length} hops" if length > 1 else "direct"]
    values = member.values
    if values.get("up") == 0:
        texts.append("down or not connected")
    elif "capacity" in values:
        texts.append(f"measured {values['capacity'] / 1e6:.3g} Mbit/s")
    if "rate" in values:
        texts.append(f"sends {values['rate'] / 1e6:.3g} Mbit/s")
    if "rtt" in values:
        texts.append(f"RTT {values['rtt']:.3g} ms")
    if values.get("loss"):
        texts.append(f"loses {100 * values['loss']:.2g} %")
    return f" ({', '.join(texts)})"
