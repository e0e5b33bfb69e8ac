"""Traces of packets through a lab's chains: what each forwarder and function did with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from hawser.control.client import ControlError, DaemonClient
from hawser.control.model import TraceEvent
from hawser.driver.base import Lab
from hawser.driver.roles import ROLES
from hawser.engine.errors import InputError
from hawser.overlay.lab.plan import NodePlan

_EVENTS = 2048
"""Most events of one daemon."""


@dataclass(frozen=True)
class Step:
    """What one daemon did with a packet."""

    daemon: str
    sfp: str
    """Chain and direction; empty if the packet was on none."""
    event: TraceEvent


def begin(lab: Lab) -> None:
    """Start tracing in all forwarders and functions of a lab.

    Raises:
        InputError: it has none that could.
    """
    if not any(_clients(lab)):
        raise InputError([f"lab {lab.name} has no chain that is steered by nsh, nothing to trace"])
    for _, client in _clients(lab):
        client.trace()  # events of an earlier trace
        client.start_trace(_EVENTS)


def steps(lab: Lab, node: str) -> tuple[Step, ...]:
    """Give the events of packets from and to a node since then, in order of time.

    Daemons that do not answer, such as killed functions, are left out.
    """
    own = {str(address) for each in lab.plan.nodes if each.name == node for address in _of(each)}
    found = (step for name, client in _clients(lab) for step in _told(lab, name, client))
    mine = (step for step in found if {step.event.source, step.event.destination} & own)
    return tuple(sorted(mine, key=lambda step: step.event.time_ns))


def _clients(lab: Lab) -> Iterator[tuple[str, DaemonClient]]:
    for name, daemon in lab.daemons.items():
        if ROLES[daemon.role].traced:
            yield name, daemon.client()


def _of(node: NodePlan) -> Iterator[IPv4Address | IPv6Address]:
    return (address.ip for port in node.interfaces for address in port.addresses)


def _told(lab: Lab, name: str, client: DaemonClient) -> Iterator[Step]:
    service_paths = {
        sfp.number: sfp.name for chain in lab.plan.chains for sfp in chain.service_paths
    }
    try:
        events = client.trace().events
    except ControlError:
        return
    for event in events:
        yield Step(name, service_paths.get(event.spi, ""), event)
