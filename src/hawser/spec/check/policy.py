"""A network's policy: what gateways can enforce of it, and what they cannot."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.errors import choices
from hawser.spec.explain import Loc
from hawser.spec.match import RULES
from hawser.spec.network import Network
from hawser.spec.overlay import MAX_PATHS, Paths, SwitchKind, TrafficType, Transport
from hawser.spec.policy import ClassPolicy, Otherwise
from hawser.spec.policy_groups import compliant, direct, policy_classes, policy_pairs
from hawser.spec.validate import Issue

_NAMES = 256
"""DNS names of all applications together."""
_MARGIN = 0.9
"""Greatest margin of thresholds."""
_HOUR = 3600
_LEAST_RATE = 8000
"""bit/s."""
_CARRIED = (TrafficType.I, TrafficType.II)


def policy(network: Network) -> Iterator[Issue]:
    """Find all errors of a network's policy."""
    yield from _applications(network)
    for traffic, wanted in network.policy.items():
        loc: Loc = ("policy", traffic.value)
        yield from _thresholds(network, loc, traffic, wanted)
        yield from _rate(network, loc, traffic, wanted)
        yield from _members(network, loc, traffic, wanted)
        yield from _labels(network, loc, traffic, wanted)
    if network.overlay.transport is Transport.QUIC:
        yield from _paths(network)


def _applications(network: Network) -> Iterator[Issue]:
    for name, found in network.applications.items():
        loc: Loc = ("applications", name)
        for index, each in enumerate(found.names):
            if each.startswith("*."):
                message = f"found {each}, expected names that can be resolved: gateways read no DNS"
                yield Issue((*loc, "names", index), f"{message} answers, so they match no wildcard")
        if not (found.addresses or found.names or found.protocol or found.ports):
            yield Issue(loc, "found an application of all traffic, expected addresses or ports")
        if found.ports and found.protocol not in ("tcp", "udp"):
            yield Issue((*loc, "ports"), "expected the protocol tcp or udp beside ports")
        if found.ports and found.ports[0] > found.ports[1]:
            yield Issue((*loc, "ports"), f"found {list(found.ports)}, expected the lower one first")
    names = {each for found in network.applications.values() for each in found.names}
    if len(names) > _NAMES:
        message = f"found {len(names)} DNS names, expected at most {_NAMES}"
        yield Issue(("applications",), message)


def _thresholds(
    network: Network, loc: Loc, traffic: TrafficType, wanted: ClassPolicy
) -> Iterator[Issue]:
    sla = wanted.sla
    if sla is None:
        return
    if traffic is TrafficType.III:
        yield Issue((*loc, "sla"), "gateways do not measure the internet for class III")
    if network.overlay.transport is not Transport.QUIC:
        message = f"expected the transport quic, found {network.overlay.transport.value}"
        yield Issue((*loc, "sla"), message)
    if all(each is None for each in (sla.rate, sla.delay, sla.jitter, sla.loss)):
        yield Issue((*loc, "sla"), "found no threshold, expected rate, delay, jitter or loss")
    if sla.margin > _MARGIN:
        message = f"found {sla.margin:.0%}, expected at most {_MARGIN:.0%}"
        yield Issue((*loc, "sla", "margin"), message)
    for field, time in (("leave_after", sla.leave_after), ("enter_after", sla.enter_after)):
        if time > _HOUR:
            yield Issue((*loc, "sla", field), f"found {time:g} s, expected at most an hour")
    for field, limit in (("delay", sla.delay), ("jitter", sla.jitter)):
        if limit is not None and limit > _HOUR:
            yield Issue((*loc, "sla", field), f"found {limit:g} s, expected at most an hour")


def _rate(network: Network, loc: Loc, traffic: TrafficType, wanted: ClassPolicy) -> Iterator[Issue]:
    if wanted.max_rate is None:
        return
    place = (*loc, "max_rate")
    if wanted.max_rate < _LEAST_RATE:
        yield Issue(place, f"found {wanted.max_rate:g} bit/s, expected at least 8 kbit/s")
    if traffic is TrafficType.III:
        if network.overlay.switch is not SwitchKind.BPF:
            message = "expected switch: bpf in the overlay: without a switch gateways lead nothing"
            yield Issue(place, f"{message} out")
    elif network.overlay.transport is not Transport.QUIC:
        message = f"expected the transport quic, found {network.overlay.transport.value}"
        yield Issue(place, message)


def _members(
    network: Network, loc: Loc, traffic: TrafficType, wanted: ClassPolicy
) -> Iterator[Issue]:
    for index, name in enumerate(wanted.applications):
        place = (*loc, "applications", index)
        if name not in network.applications:
            message = f"found {name}, which is no application"
            yield Issue(place, f"{message}; {choices(network.applications, name)}")
        for other, each in network.policy.items():
            if other is not traffic and other.value < traffic.value and name in each.applications:
                yield Issue(place, f"found {name}, which is of class {other.value} too")
    if wanted.applications and (count := len(policy_classes(network))) > RULES:
        message = f"found applications with {count} rules, expected at most {RULES}"
        yield Issue((*loc, "applications"), message)
    breaks_out = traffic is TrafficType.III and wanted.applications
    if breaks_out and network.overlay.switch is not SwitchKind.BPF:
        message = "expected switch: bpf in the overlay: without a switch gateways lead nothing out"
        yield Issue((*loc, "applications"), message)


def _labels(
    network: Network, loc: Loc, traffic: TrafficType, wanted: ClassPolicy
) -> Iterator[Issue]:
    if not wanted.labels:
        if wanted.otherwise is Otherwise.DROP and wanted.sla is None:
            message = "expected labels or sla: without any, all paths are used"
            yield Issue((*loc, "otherwise"), message)
        return
    if traffic is TrafficType.III:
        message = "gateways choose among all ports of type internet for class III"
        yield Issue((*loc, "labels"), message)
    if network.overlay.paths is Paths.AUTOMATIC:
        message = "the path program knows no labels yet: expected paths: manual in the overlay"
        yield Issue((*loc, "labels"), message)
    if network.overlay.transport is not Transport.QUIC:
        message = f"expected the transport quic, found {network.overlay.transport.value}"
        yield Issue((*loc, "labels"), message)
    known = sorted({line.label for line in network.ports.values() if line.label})
    for index, label in enumerate(wanted.labels):
        if label not in known:
            message = f"found {label}, a label that no port has; {choices(known, label)}"
            yield Issue((*loc, "labels", index), message)


def _paths(network: Network) -> Iterator[Issue]:
    """Check that each class has paths, and that what should happen without them does.

    Of many pairs with the same fault the first is enough.
    """
    for traffic in _CARRIED:
        wanted = network.policy.get(traffic)
        if wanted is None or not (wanted.labels or wanted.sla):
            continue
        faults = (_fault(network, pair, traffic, wanted) for pair in policy_pairs(network))
        first = next(filter(None, faults), None)
        if first is not None:
            field, message = first
            yield Issue(("policy", traffic.value, field), message)


def _fault(
    network: Network, pair: tuple[str, str], traffic: TrafficType, wanted: ClassPolicy
) -> tuple[str, str] | None:
    """Give what is wrong with a class between two branches: the field, and why."""
    paths = {each: set(compliant(network, pair, each)) for each in _CARRIED}
    own, used = paths[traffic], paths[TrafficType.I] | paths[TrafficType.II]
    between = " and ".join(pair)
    if not own:
        return "labels", f"found no path between {between} whose ports all have one of these"
    if len(own) > MAX_PATHS:
        message = f"found {len(own)} paths between {between}, expected at most {MAX_PATHS}"
        return "labels" if wanted.labels else "sla", message
    if wanted.otherwise is Otherwise.ANY and used != set(direct(network, pair)):
        message = f"between {between} some paths are used by no class, so that nothing can fall"
        return "otherwise", f"{message} back to them: expected drop, or no labels for the other"
    return None
