"""One direction of a link, port or path: fields that require or exclude each other."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.explain import Loc
from hawser.spec.topology import Channel
from hawser.spec.trace import fault
from hawser.spec.units import Duration
from hawser.spec.validate import Issue

_NEEDS = (
    ("jitter_distribution", "jitter"),
    ("jitter_correlation", "jitter"),
    ("jitter_reorders", "jitter"),
    ("reordering", "reordering_delay"),
    ("reordering_delay", "reordering"),
)
_SPANS = ("delay", "jitter", "reordering_delay")
LONGEST = Duration(3600)
"""Delay of the longest path."""

_EXCLUDES = (("gilbert_elliott", "loss"), ("trace", "rate"))


def impairments(loc: Loc, channel: Channel) -> Iterator[Issue]:
    """Check one direction."""
    given = {name for name in Channel.model_fields if getattr(channel, name) is not None}
    for field, other in _NEEDS:
        if field in given and other not in given:
            yield Issue((*loc, field), f"found {field} without {other}, expected both")
    for field, other in _EXCLUDES:
        if {field, other} <= given:
            yield Issue((*loc, field), f"found both {field} and {other}, expected one of them")
    for field in _SPANS:
        span = getattr(channel, field)
        if span is not None and span > LONGEST:
            yield Issue((*loc, field), f"found {span}, expected at most {LONGEST}")
    if "queue" in given and not given & {"rate", "trace"}:
        yield Issue((*loc, "queue"), "found a queue without a rate, expected a rate beside it")
    if channel.trace is not None and (wrong := fault(channel.trace)):
        yield Issue((*loc, "trace"), wrong)
