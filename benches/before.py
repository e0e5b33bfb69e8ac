#!/usr/bin/env python3
"""Compare this build of hawserd with another one ($HAWSERD_BEFORE): tunnels, chains, the switch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

import chain
import switch
import tunnel
from harness.bench import Bench, Measure, Metric, Peer
from harness.cli import Effort, main
from harness.obtain import UnavailableError, hawserd
from harness.result import Check, at_least
from harness.samples import Samples
from peers.chain import hawser as functions
from peers.forward import hawser as forwarder
from peers.hawser import Transport, gateways

_LEAST = 0.95
"""Fraction of the other build's median that this build must reach."""
_LENGTHS = {64: (1, 6, 11)}
"""Chain lengths by frame size in bytes."""

_METRICS = (
    *(each for each in tunnel.METRICS if each.name.startswith("goodput")),
    *(
        Metric(f"rate_{size}_{n}", "million/s", f"{size} B, {n}", 3)
        for size, lengths in _LENGTHS.items()
        for n in lengths
    ),
    *(each for each in switch.METRICS if each.name in ("packets", "goodput")),
)


def _tunnel(transport: Transport, program: str, effort: Effort) -> Mapping[str, Measure]:
    return tunnel.cases(gateways(program, transport), effort)


def _chain(program: str, _effort: Effort) -> Mapping[str, Measure]:
    return chain.rate_cases(partial(chain.built, partial(functions, program)), _LENGTHS)


def _switch(program: str, effort: Effort) -> Mapping[str, Measure]:
    return switch.cases(forwarder(program, 0), effort)


_SUBJECTS: Mapping[str, Callable[[str, Effort], Mapping[str, Measure]]] = {
    "mptcp": partial(_tunnel, "mptcp"),
    "mptcp tls": partial(_tunnel, "mptcp+tls"),
    "quic": partial(_tunnel, "quic"),
    "quic lane": tunnel.lane_cases,
    "ipip": partial(_tunnel, "ipip"),
    "chain": _chain,
    "switch": _switch,
}


def _other() -> str:
    program = os.environ.get("HAWSERD_BEFORE", "")
    if not os.access(program, os.X_OK):
        raise UnavailableError(f"HAWSERD_BEFORE: found {program!r}, expected a build of hawserd")
    return program


_BUILDS: Mapping[str, Callable[[], str]] = {"before": _other, "now": lambda: hawserd().path}


def _peer(subject: str, build: str, effort: Effort) -> Peer:
    cases = _SUBJECTS[subject](_BUILDS[build](), effort)
    return Peer(f"{subject}, {build}", cases=cases)


def _checks(samples: Samples) -> Sequence[Check]:
    return [
        at_least(f"{subject}, {metric.heading}, now / before, at least", ratio, _LEAST)
        for subject, metric in product(_SUBJECTS, _METRICS)
        if (ratio := samples.ratio(metric.name, f"{subject}, now", f"{subject}, before"))
    ]


def _bench(_effort: Effort, peers: Sequence[Peer]) -> Bench:
    return Bench(
        name="before",
        title="This build and another",
        about="",
        metrics=_METRICS,
        peers=peers,
        checks=_checks,
    )


if __name__ == "__main__":
    peers = {
        f"{subject}, {build}": partial(_peer, subject, build)
        for subject, build in product(_SUBJECTS, _BUILDS)
    }
    tools = tuple(dict.fromkeys((*tunnel.TOOLS, *chain.TOOLS)))
    sys.exit(main(str(__doc__), tools, peers, _bench, documented=False))
