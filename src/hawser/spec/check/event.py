"""Events: what they change exists and can be changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.spec.check.topology import near
from hawser.spec.explain import Loc
from hawser.spec.topology import Channel, Topology, backward
from hawser.spec.validate import Issue
from hawser.spec.workflow import Event, Scenario


def events(scenario: Scenario) -> Iterator[Issue]:
    """Check the events of a scenario."""
    for index, event in enumerate(scenario.events):
        yield from _event(scenario.topology, event, ("events", index))


def _event(topology: Topology, event: Event, loc: Loc) -> Iterator[Issue]:
    kind, _, name = event.element.partition(":")
    known = _elements(topology, kind)
    if name not in known:
        yield Issue((*loc, "element"), near(known, name, kind))
        return
    if not event.change.model_fields_set:
        message = "found no change, expected rate, queue, delay, jitter, loss or up"
        yield Issue((*loc, "change"), message)
    if kind == "port" and event.change.queue is not None:
        message = "found a queue, but what goes to a port waits in the queues of its paths"
        yield Issue((*loc, "change", "queue"), message)
    for field in sorted(event.change.model_fields_set & _PATHS if kind == "port" else ()):
        message = f"found {field}, but it is the paths to and from a port that have one"
        yield Issue((*loc, "change", field), message)
    for field in sorted(event.change.model_fields_set & {"rate", "queue"}):
        yield from _shaped(known[name], (*loc, "change", field), event.element)


_PATHS = frozenset({"delay", "jitter", "loss"})


def _elements(topology: Topology, kind: str) -> Mapping[str, Channel]:
    internet = topology.internet
    if kind == "link":
        return topology.links
    if internet is None:
        return {}
    return internet.paths if kind == "path" else internet.ports


def _shaped(channel: Channel, loc: Loc, element: str) -> Iterator[Issue]:
    if channel.rate is None or backward(channel).rate is None:
        message = (
            f"{element} has no rate in both directions; expected one in the topology to change"
        )
        yield Issue(loc, message)
