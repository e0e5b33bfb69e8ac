"""A lab's controller: where it runs, whom it can configure, and the events that change it."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.check.topology import near
from hawser.spec.errors import found
from hawser.spec.nat import behind_nats
from hawser.spec.overlay import Encryption, Overlay, SwitchKind, Transport
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario

_CHANGES = ("network", "up")


def controller(scenario: Scenario) -> Iterator[Issue]:
    """Check the controller of a scenario, and the events that concern it."""
    yield from _events(scenario)
    if scenario.controller is None:
        return
    yield from _node(scenario, scenario.controller.node)
    if scenario.overlay is None or not scenario.overlay.branches:
        message = "found a controller without overlay.branches: it would have no gateways"
        yield Issue(("controller",), message, key=True)
    else:
        yield from _overlay(scenario.overlay)


def _node(scenario: Scenario, name: str) -> Iterator[Issue]:
    """Gateways reach it over the internet."""
    topology, loc = scenario.topology, ("controller", "node")
    ports = topology.internet.ports if topology.internet else {}
    branches = scenario.overlay.branches.values() if scenario.overlay else ()
    if name not in topology.nodes:
        yield Issue(loc, near(topology.nodes, name, "node"))
    elif all(port.node != name for port in ports):
        yield Issue(loc, f"found {found(name)}, which has no internet port")
    elif (first := next(port for port in ports if port.node == name)) in behind_nats(topology):
        yield Issue(loc, f"found {found(name)}, whose port {first} is behind a NAT")
    elif any(branch.gateway == name for branch in branches):
        yield Issue(loc, f"found {found(name)}, a gateway, expected another node")


def _overlay(overlay: Overlay) -> Iterator[Issue]:
    """A controller accepts what is encrypted, and what gateways can do by themselves."""
    if overlay.transport not in (Transport.MPTCP, Transport.QUIC):
        message = f"found {overlay.transport.value}, expected mptcp or quic with a controller"
        yield Issue(("overlay", "transport"), message)
    if overlay.transport is Transport.MPTCP and overlay.encryption is Encryption.NONE:
        message = "found none, expected tls13 with a controller"
        yield Issue(("overlay", "encryption"), message)
    if overlay.switch is SwitchKind.OPENFLOW and overlay.transport is not Transport.QUIC:
        message = f"found openflow with the {overlay.transport.value} transport"
        yield Issue(("overlay", "switch"), f"{message}, expected quic with a controller")


def _events(scenario: Scenario) -> Iterator[Issue]:
    known = [scenario.controller.node] if scenario.controller else []
    for index, event in enumerate(scenario.events):
        if event.kind != "controller":
            continue
        name = event.element.partition(":")[2]
        if name not in known:
            yield Issue(("events", index, "element"), near(known, name, "controller"))
        changed = {key for key, value in event.change if value is not None}
        if len(changed) != 1 or not changed.issubset(_CHANGES):
            said = ", ".join(sorted(changed)) or "no change"
            message = f"found {said}, expected one of {', '.join(_CHANGES)}"
            yield Issue(("events", index, "change"), message)
