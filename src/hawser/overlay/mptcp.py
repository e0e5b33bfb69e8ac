"""Endpoints for the kernel's MPTCP path manager, so that a connection gets a subflow on every pair of WAN ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from hawser.overlay.address import Addresses
from hawser.overlay.group import groups
from hawser.overlay.plan import MptcpEndpoint
from hawser.overlay.route import wan_ports
from hawser.spec.measurement import Iperf3, Protocol
from hawser.spec.overlay import Transport
from hawser.spec.workflow import Scenario

Flags = tuple[Literal["subflow", "signal", "fullmesh"], ...]


def endpoints(scenario: Scenario, addresses: Addresses) -> Mapping[str, tuple[MptcpEndpoint, ...]]:
    """Give the endpoints of every node that makes or takes MPTCP connections."""
    connects, listens = _roles(scenario)
    wan = wan_ports(scenario.topology)
    return {
        node: tuple(_endpoints(addresses, ports, node in connects, node in listens))
        for node, ports in wan.items()
        if node in connects | listens
    }


def _roles(scenario: Scenario) -> tuple[set[str], set[str]]:
    """Nodes that connect and nodes that listen."""
    pairs = [*_tunnels(scenario), *_measured(scenario)]
    return {first for first, _ in pairs}, {second for _, second in pairs}


def _tunnels(scenario: Scenario) -> Iterator[tuple[str, str]]:
    overlay = scenario.overlay
    if overlay is None or overlay.transport is not Transport.MPTCP:
        return
    for first, second in groups(overlay):
        yield overlay.branches[first].gateway, overlay.branches[second].gateway


def _measured(scenario: Scenario) -> Iterator[tuple[str, str]]:
    for measurement in scenario.measurements.values():
        if isinstance(measurement, Iperf3) and measurement.protocol is Protocol.MPTCP:
            yield measurement.source.partition(".")[0], measurement.target.partition(".")[0]


def _endpoints(
    addresses: Addresses, ports: list[str], connects: bool, listens: bool
) -> Iterator[MptcpEndpoint]:
    flags: Flags = (("subflow", "fullmesh") if connects else ()) + (("signal",) if listens else ())
    for port in ports:
        interface = port.partition(".")[2]
        yield MptcpEndpoint(address=addresses.wan[port].port.ip, interface=interface, flags=flags)
