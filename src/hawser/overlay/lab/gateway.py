"""Daemons of the gateways."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.overlay.lab.plan import GatewayDaemon
from hawser.overlay.sdwan.fabric import Fabric
from hawser.overlay.sdwan.gateway import configurations


def daemons(fabric: Fabric | None) -> Iterator[GatewayDaemon]:
    """Give one daemon per branch, on its gateway; none if the transport is `none`."""
    if fabric is None:
        return
    for branch, config in configurations(fabric).items():
        gateway = fabric.branches[branch].gateway
        yield GatewayDaemon(node=gateway, name=gateway, config=config)
