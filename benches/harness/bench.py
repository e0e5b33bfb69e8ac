"""Parts of a bench, and the order in which its samples are taken."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.result import Check, Figure
from harness.samples import Samples

Measure = Callable[[], Mapping[str, float]]
"""Takes one sample in a lab of its own and returns values by metric name."""


class SampleError(Exception):
    """A sample could not be taken; the text says why."""


@dataclass(frozen=True)
class Metric:
    """A measured quantity: `name` is for scripts, `heading` for readers."""

    name: str
    unit: str
    heading: str
    digits: int = 2


@dataclass(frozen=True)
class Peer:
    """One of the programs compared, with its cases: a measurement by workload name.

    A peer that is unavailable has no cases, and `missing` gives the reason.
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
        checks: what must hold: ratios within the run, and what does not depend on the machine's
            speed. Sees all samples.
        figures: absolute figures with what they should reach, which are not judged.
    """

    name: str
    title: str
    about: str
    metrics: Sequence[Metric]
    peers: Sequence[Peer]
    checks: Callable[[Samples], Sequence[Check]]
    derive: Callable[[Samples], None] = lambda _samples: None
    figures: Callable[[Samples], Sequence[Figure]] = lambda _samples: ()

    def cases(self) -> list[Case]:
        """All cases of the available peers."""
        return [
            Case(peer.name, workload, measure)
            for peer in self.peers
            for workload, measure in (peer.cases or {}).items()
        ]


def order(cases: Sequence[Case], rounds: int, seed: int) -> list[tuple[int, Case]]:
    """Schedule every case once per round, each round in its own random order.

    This is a randomised complete block design: drift of the machine affects all peers alike
    (Abedi and Brecht, "Conducting Repeatable Experiments in Highly Variable Cloud Computing
    Environments", ICPE 2017).
    """
    randomness = random.Random(seed)  # noqa: S311 - chooses an order, not a secret
    return [
        (round_, case)
        for round_ in range(rounds)
        for case in randomness.sample(list(cases), len(cases))
    ]
