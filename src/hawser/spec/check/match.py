"""Conditions of rules: each can match packets."""

from __future__ import annotations

from collections.abc import Iterator

from hawser.spec.explain import Loc
from hawser.spec.match import Match
from hawser.spec.validate import Issue


def match(loc: Loc, rule: Match) -> Iterator[Issue]:
    """Check the ports of a rule."""
    for field in ("source_ports", "destination_ports"):
        ports = getattr(rule, field)
        if ports is None:
            continue
        if rule.protocol not in ("tcp", "udp"):
            expected = "protocol: tcp or udp beside them"
            yield Issue((*loc, field), f"found ports without their protocol, expected {expected}")
        if ports[0] > ports[1]:
            message = f"found {ports[0]} to {ports[1]}, expected the lower port first"
            yield Issue((*loc, field), message)
