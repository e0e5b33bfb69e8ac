"""Delays that a topology does not give but that follow from where its nodes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hawser.spec.port import Port
from hawser.spec.region import one_way_delay
from hawser.spec.topology import Channel, Topology
from hawser.spec.units import Duration

C = TypeVar("C", bound=Channel)

Distance = Callable[[Port, Port], Duration | None]
"""One-way delay between two ports; None where it does not follow from regions."""


def distant(topology: Topology) -> Topology:
    """Give links and named paths the delay between their ends' regions, where they have none."""
    links = {
        name: farther(link, between(topology, *link.ends)) for name, link in topology.links.items()
    }
    if topology.internet is None:
        return topology.model_copy(update={"links": links})
    every = topology.internet.paths.items()
    paths = {name: farther(path, between(topology, *path.ends)) for name, path in every}
    internet = topology.internet.model_copy(update={"paths": paths})
    return topology.model_copy(update={"links": links, "internet": internet})


def between(topology: Topology, one: Port, other: Port) -> Duration | None:
    """Give the one-way delay between two ports of nodes in two regions."""
    here, there = (topology.nodes[port.node].region for port in (one, other))
    return one_way_delay(here, there) if here and there else None


def farther(channel: C, delay: Duration | None) -> C:
    """Give a channel this delay, unless it says its own."""
    if delay is None or channel.delay is not None:
        return channel
    return channel.model_copy(update={"delay": delay})
