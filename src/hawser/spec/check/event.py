"""Events: what they change exists and can be changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.spec.chain import Chain, Function, Steering
from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.measurement import Measurement, expected_seconds
from hawser.spec.topology import Bottleneck, Channel, Topology, backward
from hawser.spec.validate import Issue
from hawser.spec.workflow import Event

MAX_EVENTS = 256


def events(
    events: Mapping[int, Event],
    topology: Topology,
    functions: Mapping[str, Function],
    chains: Mapping[str, Chain],
) -> Iterator[Issue]:
    """Check events against the topology and its functions."""
    if len(events) > MAX_EVENTS:
        yield Issue(("events",), f"found {len(events)}, expected at most {MAX_EVENTS}")
    for index, event in events.items():
        if event.kind == "function":
            yield from _function(functions, chains, event, ("events", index))
        elif event.kind != "controller":
            yield from _event(topology, event, ("events", index))


def times(events: Mapping[int, Event], measurements: Mapping[str, Measurement]) -> Iterator[Issue]:
    """Check that events happen while something is measured."""
    if not measurements:
        return
    end = expected_seconds(measurements)
    for index, event in events.items():
        if event.at >= end:
            message = f"found {str(event.at)!r}, expected less than the {end:g} s of measurements"
            yield Issue(("events", index, "at"), message)


def _function(
    functions: Mapping[str, Function], chains: Mapping[str, Chain], event: Event, loc: Loc
) -> Iterator[Issue]:
    """Check an event of a function: only functions that are daemons of Hawser can be killed."""
    name = event.element.partition(":")[2]
    steered = {each for c in chains.values() if c.steering is Steering.NSH for each in c.functions}
    if name not in steered & set(functions):
        what = "function of a chain with steering: nsh"
        yield Issue((*loc, "element"), near(sorted(steered & set(functions)), name, what))
    elif not functions[name].runs:
        message = (
            f"found {name}, a {functions[name].kind} in the kernel, which has no process to kill"
        )
        yield Issue((*loc, "element"), message)
    changed = {key for key, value in event.change if value is not None}
    if changed != {"up"}:
        said = ", ".join(sorted(changed)) or "no change"
        yield Issue((*loc, "change"), f"found {said}, expected up, the only change of a function")


def _event(topology: Topology, event: Event, loc: Loc) -> Iterator[Issue]:
    kind, _, name = event.element.partition(":")
    known = _elements(topology, kind)
    if name not in known:
        yield Issue((*loc, "element"), near(known, name, kind))
        return
    changed = {key for key, value in event.change if value is not None}
    if not changed:
        message = "found no change, expected rate, queue, delay, jitter, loss or up"
        yield Issue((*loc, "change"), message)
    if "network" in changed:
        message = "found network, which only a controller has"
        yield Issue((*loc, "change", "network"), message)
    if kind == "port" and "queue" in changed:
        message = "found a queue, but packets to a port are queued at its paths"
        yield Issue((*loc, "change", "queue"), message)
    for field in sorted(changed & _PATHS if kind in _WITHOUT else ()):
        message = f"found {field}, but only {_WITHOUT[kind]} have one"
        yield Issue((*loc, "change", field), message)
    channel = known[name]
    if isinstance(channel, Channel):
        for field in sorted(changed & {"rate", "queue"}):
            yield from _shaped(channel, (*loc, "change", field), event.element)


_PATHS = frozenset({"delay", "jitter", "loss"})
_WITHOUT = {
    "port": "the paths to and from a port",
    "bottleneck": "the paths through a bottleneck",
}


def _elements(topology: Topology, kind: str) -> Mapping[str, Channel | Bottleneck]:
    internet = topology.internet
    if kind == "link":
        return topology.links
    if internet is None:
        return {}
    if kind == "bottleneck":
        return internet.bottlenecks
    if kind == "path":
        return internet.paths
    return dict[str, Channel | Bottleneck](internet.ports.items())


def _shaped(channel: Channel, loc: Loc, element: str) -> Iterator[Issue]:
    if channel.rate is None or backward(channel).rate is None:
        message = (
            f"{element} has no rate in both directions; expected one in the topology to change"
        )
        yield Issue(loc, message)
