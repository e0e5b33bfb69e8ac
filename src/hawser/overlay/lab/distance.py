"""Delays that a topology leaves out: derived from its nodes' regions and from events."""

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
"""One-way delay between two ports; None if regions do not determine it."""


def changeable(topology: Topology, events: Sequence[Event]) -> Topology:
    """Give links and paths without a delay the one of their regions, or 0 if an event impairs them.

    Any impairment counts, also jitter or loss: with a delay the element starts with a shaper.
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
    """Give links and named paths without a delay the one between their ends' regions."""
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
    """Give a channel this delay, unless it has its own."""
    if delay is None or channel.delay is not None:
        return channel
    return channel.model_copy(update={"delay": delay})
