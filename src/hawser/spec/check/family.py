"""IPv6: links and tunnels can carry it, and ends of measurements that use it have addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from hawser.spec.chain import LEAST_LINK_MTU_IPV6, Chain
from hawser.spec.errors import found
from hawser.spec.explain import Loc
from hawser.spec.measurement import Iperf3, Load, Measurement, Protocol, Throughput
from hawser.spec.overlay import Overlay, Paths, SwitchKind, Transport
from hawser.spec.port import Port, node_of
from hawser.spec.route import ip_versions, switch_kind
from hawser.spec.topology import Internet, Topology
from hawser.spec.validate import Issue
from hawser.spec.way import first_hops
from hawser.spec.workflow import Scenario

_FAMILY: Loc = ("overlay", "family")


def link_mtus(topology: Topology) -> Iterator[Issue]:
    """Check that links that carry IPv6 have its least MTU (RFC 8200 section 5)."""
    for name, link in topology.links.items() if topology.ipv6 else ():
        if link.mtu < LEAST_LINK_MTU_IPV6:
            message = f"found {link.mtu}, expected at least {LEAST_LINK_MTU_IPV6} with ipv6"
            yield Issue(("topology", "links", name, "mtu"), message)


def families(scenario: Scenario) -> Iterator[Issue]:
    """Check a scenario that is right otherwise: its tunnels and measurements."""
    if scenario.overlay is not None:
        yield from tunnels(scenario.topology, scenario.overlay)
        yield from _internet(scenario.topology, scenario.overlay)
    for name, measurement in scenario.measurements.items():
        loc: Loc = ("measurements", name)
        if measurement.family == 6:
            yield from _ipv6((*loc, "family"), measurement, scenario)
            if isinstance(measurement, Load | Throughput):
                yield from _flows((*loc, "flows"), measurement)


def tunnels(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check that what leads the tunnels knows the versions of IP of their ports."""
    ports = {version: port for port, version in _versions(topology, overlay).items()}
    if 6 in ports and switch_kind(topology, overlay) is SwitchKind.OPENFLOW:
        message = f"found openflow, whose flows match addresses of IPv4, but {ports[6]} has IPv6"
        yield Issue(("overlay", "switch"), f"{message}; expected bpf")
    if len(ports) < 2 or overlay.transport is Transport.NONE:
        return
    mixed = f"but {ports[4]} has IPv4 and {ports[6]} has IPv6; expected one version at all ports"
    if overlay.transport is Transport.MPTCP:
        message = f"found mptcp, whose connections have subflows of one version, {mixed}, or quic"
        yield Issue(("overlay", "transport"), message)
    if overlay.paths is Paths.AUTOMATIC:
        yield Issue(("overlay", "paths"), f"found automatic, {mixed}, or manual")
    if overlay.rendezvous is not None:
        yield Issue(("overlay", "rendezvous"), f"found {overlay.rendezvous}, {mixed}, or none")


def _versions(topology: Topology, overlay: Overlay) -> Mapping[Port, Literal[4, 6]]:
    """Give the versions at the WAN ports of branches."""
    wan = {port for branch in overlay.branches.values() for port in branch.wan_ports}
    return {port: each for port, each in ip_versions(topology, overlay).items() if port in wan}


def _internet(topology: Topology, overlay: Overlay) -> Iterator[Issue]:
    """Check that nothing of a lab is between tunnels of IPv6 that knows IPv4 only."""
    internet = topology.internet or Internet(ports={})
    for port, version in _versions(topology, overlay).items():
        if version == 4:
            continue
        access = internet.ports[port]
        loc: Loc = ("topology", "internet", "ports", port, "family") if access.family else _FAMILY
        if internet.bottlenecks:
            message = f"found 6 at {port} with bottlenecks of the internet, expected 4"
            yield Issue(loc, f"{message}: not supported for IPv6")
        if access.nat is not None and overlay.transport is not Transport.NONE:
            yield Issue(loc, f"found 6 at {port}, which is behind a NAT of IPv4, expected 4")
        if internet.mtu_of(port) < LEAST_LINK_MTU_IPV6:
            message = f"found 6 at {port} with an MTU of {internet.mtu_of(port)}"
            yield Issue(loc, f"{message}, expected at least {LEAST_LINK_MTU_IPV6}")


def _flows(loc: Loc, measurement: Load | Throughput) -> Iterator[Issue]:
    """Check that flows with addresses of their own have IPv6 addresses."""
    for field in ("source", "target"):
        chosen = getattr(measurement.flows, field)
        if chosen is not None and chosen.first.version != 6:
            message = f"found {chosen.first}, expected an IPv6 address, as family is 6"
            yield Issue((*loc, field, "first"), message)


def _ipv6(loc: Loc, measurement: Measurement, scenario: Scenario) -> Iterator[Issue]:
    if isinstance(measurement, Iperf3) and measurement.protocol is Protocol.MPTCP:
        yield Issue(loc, "found 6, but MPTCP is measured over IPv4 only")
        return
    if scenario.disrupted and isinstance(measurement, Iperf3):
        yield Issue(loc, "found 6, but convergence after events is measured over IPv4 only")
        return
    source, target = node_of(measurement.source), node_of(measurement.target)
    if _chained(source, target, scenario.chains):
        return
    if not scenario.topology.ipv6:
        message = "found 6, but the ends have no IPv6 addresses"
        yield Issue(loc, f"{message}; expected topology.ipv6, or a chain between them with ipv6")
        return
    reached = first_hops(scenario.topology, source)
    wan = set(scenario.topology.internet.ports) if scenario.topology.internet else set()
    ends = {measurement.source, measurement.target}
    if target not in reached or ends & wan:
        message = "found 6, but only links carry IPv6, and none lead"
        message += f" from {found(measurement.source)} to {found(measurement.target)}"
        yield Issue(loc, message)


def _chained(source: str, target: str, chains: Mapping[str, Chain]) -> bool:
    """Tell whether a chain gives two nodes IPv6 addresses."""
    ends = {source, target}
    return any(c.carries_ipv6 and {c.source, c.target} == ends for c in chains.values())
