"""Delays that a topology does not give: they follow from where its nodes are, and from events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hawser.spec.port import Port
from hawser.spec.region import one_way_delay
from hawser.spec.topology import Channel, Impairment, Topology
from hawser.spec.units import Duration
from hawser.spec.workflow import Event

C = TypeVar("C", bound=Channel)

Distance = Callable[[Port, Port], Duration | None]
"""One-way delay between two ports; None where it does not follow from regions."""


def changeable(topology: Topology, events: Sequence[Event]) -> Topology:
    """Give links and paths the delays of their regions, and of zero to what an event will delay.

    The same holds for what an event will vary or lose packets of: so it has from the start what
    carries that out.
    """
    elements = {
        event.element
        for event in events
        if event.change.model_fields_set & set(Impairment.model_fields)
    }
    topology = _distant(topology)
    links = {
        name: _delayed(link, f"link:{name}" in elements) for name, link in topology.links.items()
    }
    if topology.internet is None:
        return topology.model_copy(update={"links": links})
    every = topology.internet.paths.items()
    paths = {name: _delayed(path, f"path:{name}" in elements) for name, path in every}
    internet = topology.internet.model_copy(update={"paths": paths})
    return topology.model_copy(update={"links": links, "internet": internet})


def _delayed(channel: C, changes: bool) -> C:
    if not changes or channel.delay is not None:
        return channel
    return channel.model_copy(update={"delay": Duration(0)})


def _distant(topology: Topology) -> Topology:
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
