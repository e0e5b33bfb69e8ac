"""The ends of a measurement: which node acts, and under which address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from hawser.driver.base import Lab
from hawser.node.base import Node
from hawser.probe.base import ProbeError
from hawser.spec.measurement import Between

Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class Endpoint:
    """One end: a node and the address it uses."""

    node: Node
    address: str

    @property
    def host(self) -> str:
        """The address as it is written in front of a port (RFC 3986 section 3.2.2)."""
        return f"[{self.address}]" if ":" in self.address else self.address


def endpoints(lab: Lab, between: Between) -> tuple[Endpoint, Endpoint]:
    """Source and target of a measurement.

    Raises:
        ProbeError: the lab has no such node or port.
    """
    named = lab.plan.addresses if between.family == 4 else lab.plan.addresses6
    return _endpoint(lab, between.source, named), _endpoint(lab, between.target, named)


def _endpoint(lab: Lab, reference: str, named: Mapping[str, Address]) -> Endpoint:
    node = lab.nodes.get(reference.partition(".")[0])
    address = named.get(reference)
    if node is None or address is None:
        raise ProbeError(f"{reference!r} is not in lab {lab.name}")
    return Endpoint(node, str(address))
