"""Whether packets of a measurement can arrive: no lab should be deployed to find out."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.endpoint import address_port
from hawser.spec.nat import behind_nats
from hawser.spec.overlay import Overlay, Transport
from hawser.spec.port import Port
from hawser.spec.topology import Topology, components
from hawser.spec.validate import Issue
from hawser.spec.workflow import Scenario


def reachability(scenario: Scenario) -> Iterator[Issue]:
    """Check that each measurement's ends can talk to each other."""
    for name, measurement in scenario.measurements.items():
        reason = unreachable(scenario, measurement.source, measurement.target)
        if reason is not None:
            yield Issue(("measurements", name, "to"), reason)


def unreachable(scenario: Scenario, source: str, target: str) -> str | None:
    """Say why packets cannot go both ways between two ends, None where they can."""
    ports = [address_port(scenario.topology, scenario.overlay, end) for end in (source, target)]
    internet = scenario.topology.internet
    wan = [internet is not None and port in internet.ports for port in ports]
    if all(wan):
        hidden = ports[1] in behind_nats(scenario.topology) and ports[0] != ports[1]
        return f"nobody reaches {ports[1]}, which is behind a NAT" if hidden else None
    if any(wan):
        inner = target if wan[0] else source
        return f"there is no route back: {inner} has a private address, the other end a public one"
    if _joined(scenario.topology, *ports) or _tunnelled(scenario, *ports):
        return None
    if scenario.overlay is not None and scenario.overlay.transport is Transport.NONE:
        return f"there is no route from {source} to {target} while overlay.transport is none"
    return f"there is no route from {source} to {target}: no links and no overlay join them"


def _joined(topology: Topology, source: Port, target: Port) -> bool:
    nodes = {source.node, target.node}
    return any(nodes <= component for component in components(topology))


def _tunnelled(scenario: Scenario, source: Port, target: Port) -> bool:
    overlay = scenario.overlay
    if overlay is None or overlay.transport is Transport.NONE:
        return False
    return all(_in_lan(scenario.topology, overlay, port) for port in (source, target))


def _in_lan(topology: Topology, overlay: Overlay, port: Port) -> bool:
    lans = {branch.lan_port for branch in overlay.branches.values()}
    return any(port in link.ends and lans & set(link.ends) for link in topology.links.values())
