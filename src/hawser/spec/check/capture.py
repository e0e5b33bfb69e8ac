"""Captures: their ports exist, and their sizes are bearable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.spec.capture import Capture
from hawser.spec.check.topology import near
from hawser.spec.topology import Topology, node_ports
from hawser.spec.units import Size
from hawser.spec.validate import Issue

_SMALLEST, _LARGEST = Size(1_000), Size(100_000_000)
MAX_CAPTURES = 64


def captures(described: Mapping[str, Capture], topology: Topology) -> Iterator[Issue]:
    """Check captures against the topology."""
    if len(described) > MAX_CAPTURES:
        yield Issue(("capture",), f"found {len(described)}, expected at most {MAX_CAPTURES}")
    ports = [port for every in node_ports(topology).values() for port in every]
    for name, capture in described.items():
        if capture.at not in ports:
            yield Issue(("capture", name, "at"), near(ports, capture.at, "port"))
        if not _SMALLEST <= capture.size <= _LARGEST:
            message = f"found {str(capture.size)!r}, expected {_SMALLEST} to {_LARGEST}"
            yield Issue(("capture", name, "size"), message)
