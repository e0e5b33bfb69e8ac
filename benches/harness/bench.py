"""What a bench is made of, and the order in which it is measured."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.result import Check
from harness.samples import Samples

Measure = Callable[[], Mapping[str, float]]
"""Takes one sample, on a lab of its own: values by metric name."""


class SampleError(Exception):
    """A sample could not be taken; the text says why."""


@dataclass(frozen=True)
class Metric:
    """Something that is measured: `name` is for scripts, `heading` for people."""

    name: str
    unit: str
    heading: str
    digits: int = 2


@dataclass(frozen=True)
class Peer:
    """One of the things compared, and its cases: a measurement by workload name.

    A peer that cannot be had has no cases but the reason in `missing`.
    """

    name: str
    version: str = ""
    cases: Mapping[str, Measure] | None = None
    missing: str = ""


@dataclass(frozen=True)
class Case:
    """One peer under one workload."""

    peer: str
    workload: str
    measure: Measure


@dataclass(frozen=True)
class Bench:
    """A comparison of peers.

    Attributes:
        name: `make bench-NAME` runs it.
        title: heading of its section of docs/benchmarks.md.
        about: what is measured, and how, in a paragraph of Markdown.
        metrics: columns of the table, in order.
        peers: rows of the table, in order.
        derive: adds metrics that are computed from others of the same round.
        checks: what must hold; sees all samples.
    """

    name: str
    title: str
    about: str
    metrics: Sequence[Metric]
    peers: Sequence[Peer]
    checks: Callable[[Samples], Sequence[Check]]
    derive: Callable[[Samples], None] = lambda _samples: None

    def cases(self) -> list[Case]:
        """All cases of the peers that are there."""
        return [
            Case(peer.name, workload, measure)
            for peer in self.peers
            for workload, measure in (peer.cases or {}).items()
        ]


def order(cases: Sequence[Case], rounds: int, seed: int) -> list[tuple[int, Case]]:
    """Every case once a round, each round in a random order of its own.

    A randomised complete block design: what the machine does over the run falls on all peers alike
    (Abedi and Brecht, "Conducting Repeatable Experiments in Highly Variable Cloud Computing
    Environments", ICPE 2017).
    """
    randomness = random.Random(seed)  # noqa: S311 - an order, not a secret
    return [
        (round_, case)
        for round_ in range(rounds)
        for case in randomness.sample(list(cases), len(cases))
    ]
