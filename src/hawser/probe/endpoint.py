"""The ends of a measurement: which node acts, and under which address."""

from __future__ import annotations

from dataclasses import dataclass

from hawser.driver.base import Lab
from hawser.node.base import Node
from hawser.probe.base import ProbeError
from hawser.spec.measurement import Between


@dataclass(frozen=True)
class Endpoint:
    """One end: a node and the address it uses."""

    node: Node
    address: str


def endpoints(lab: Lab, between: Between) -> tuple[Endpoint, Endpoint]:
    """Source and target of a measurement.

    Raises:
        ProbeError: the lab has no such node or port.
    """
    return _endpoint(lab, between.source), _endpoint(lab, between.target)


def _endpoint(lab: Lab, reference: str) -> Endpoint:
    node = lab.nodes.get(reference.partition(".")[0])
    address = lab.plan.addresses.get(reference)
    if node is None or address is None:
        raise ProbeError(f"{reference!r} is not in lab {lab.name}")
    return Endpoint(node, str(address))
