"""Which flows a sensor's policy would have blocked, by records of traffic that nothing blocked.

A flow that enough records call malicious is blocked alone, and its source with enough others
(`Policy`). What blocked senders would have sent instead is not known: replayed attacks go on as
they did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from hawser.ids.records import Bools, Floats, Integers
from hawser.ids.table import Model
from hawser.ids.train import Labelled

_REACTION_US: Final = 5_000
"""From a verdict to the firewall's rule."""
_LIFETIME_US: Final = 300_000_000
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Policy:
    """When a source is blocked, and a flow alone."""

    flows: int
    """A source after so many different malicious flows."""
    within_s: float
    """That were found in this time."""
    records: int = 2
    """A flow alone after so many malicious records, in the same time."""
    packets: int = 8
    """Or after one of so many packets."""


POLICIES: Final = (
    *(Policy(n, t) for n, t in product((1, 2, 3, 5, 8, 13), (3, 10, 30))),
    *(Policy(5, 10, records) for records in (1, 3)),
)


@dataclass(frozen=True)
class Replayed:
    """What a policy would have blocked."""

    policy: Policy
    benign_blocked: int
    """Flows of which packets were blocked."""
    benign: int
    malicious_blocked: int
    malicious: int
    malicious_volume_blocked: float
    """Share of the bytes, as if each flow sent all the time at one rate."""
    sources_blocked: int
    """Sources with a benign flow that was blocked with its source."""


def replay(found: Labelled, model: Model, policies: Sequence[Policy] = POLICIES) -> list[Replayed]:
    """Replay records under each of several policies.

    Args:
        found: labelled records of everything that a sensor would report (`--records all`).
        model: the model, whose threshold decides.
        policies: the policies.
    """
    accused = _Accused.of(found, model.score(found.records.features) >= model.threshold)
    return [_replay(found, accused, policy) for policy in policies]


@dataclass(frozen=True)
class _Accused:
    """Verdicts in the order of time, k, on m flows."""

    flow: Integers
    """(k,)"""
    time_us: Integers
    is_over: Bools
    packets: Floats
    """Packets that each record covers."""
    source: Integers
    """(m,) Number of the address that began each flow."""
    target: Integers
    """(m,) Of the other one."""

    @classmethod
    def of(cls, found: Labelled, is_named: Bools) -> _Accused:
        chosen = np.flatnonzero(is_named)
        chosen = chosen[np.argsort(found.flows.decided_us[chosen], kind="stable")]
        rows = found.flows.first_row
        ends = [found.records.texts(name)[rows] for name in ("srcip", "dstip")]
        _, numbers = np.unique(np.concatenate(ends).astype(str), return_inverse=True)
        return cls(
            flow=found.flows.of_record[chosen],
            time_us=found.flows.decided_us[chosen],
            is_over=found.records.is_last()[chosen],
            packets=found.records.packets()[chosen],
            source=numbers[: len(rows)],
            target=numbers[len(rows) :],
        )

    def __iter__(self) -> Iterator[tuple[int, int, bool, float]]:
        columns = (self.flow, self.time_us, self.is_over, self.packets)
        yield from zip(*(column.tolist() for column in columns), strict=True)


def _replay(found: Labelled, accused: _Accused, policy: Policy) -> Replayed:
    flows, sources = found.flows, _Blocks(accused, policy)
    alone = np.full(len(flows), _NEVER)
    records = _Evidence(policy.records, policy.within_s)
    for number, (flow, time_us, is_over, packets) in enumerate(accused):
        if alone[flow] < _NEVER or sources.covers(flow, time_us):
            continue
        is_blocked_with_source = sources.accuse(flow, time_us)
        is_sure = records.take(time_us, flow, number) or packets >= policy.packets
        if is_sure and not is_over and not is_blocked_with_source:
            alone[flow] = time_us + _REACTION_US
    with_source = sources.begin(flows.first_us, flows.last_us)
    begin = np.minimum(alone, with_source)
    is_blocked, is_malicious = begin <= flows.last_us, found.is_malicious
    wrongly = (with_source <= flows.last_us) & ~is_malicious
    volume = flows.volume[is_malicious].sum()
    blocked = flows.volume * _share(begin, flows.first_us, flows.last_us)
    return Replayed(
        policy=policy,
        benign_blocked=int((is_blocked & ~is_malicious).sum()),
        benign=int((~is_malicious).sum()),
        malicious_blocked=int((is_blocked & is_malicious).sum()),
        malicious=int(is_malicious.sum()),
        malicious_volume_blocked=float(blocked[is_malicious].sum() / volume) if volume else 0.0,
        sources_blocked=len(np.unique(accused.source[wrongly])),
    )


def _share(begin: Integers, first: Integers, last: Integers) -> Floats:
    """(m,) Share of each flow's time after `begin`."""
    length = last - first + 1
    shares: Floats = np.clip((last + 1 - np.minimum(begin, last + 1)) / length, 0.0, 1.0)
    return shares


class _Evidence:
    """What speaks against sources or flows, found in a time."""

    def __init__(self, enough: int, within_s: float) -> None:
        self._enough = enough
        self._within_us = round(within_s * 1e6)
        self._found: dict[int, dict[int, int]] = {}

    def take(self, time_us: int, against: int, item: int) -> bool:
        """Take an item; say whether there are enough different ones."""
        before = self._found.get(against, {})
        known = {one: at for one, at in before.items() if at >= time_us - self._within_us}
        self._found[against] = known | {item: time_us}
        return len(self._found[against]) >= self._enough

    def forget(self, against: int) -> None:
        """Forget what was found."""
        del self._found[against]


class _Blocks:
    """Blocks of sources, and what speaks for more."""

    def __init__(self, accused: _Accused, policy: Policy) -> None:
        self._accused = accused
        self._evidence = _Evidence(policy.flows, policy.within_s)
        self._blocks: dict[int, list[int]] = {}
        """When blocks of each source began."""

    def covers(self, flow: int, time_us: int) -> bool:
        """Whether one end of a flow is blocked at a time."""
        ends = self._accused.source[flow], self._accused.target[flow]
        begins = (self._blocks.get(int(end), [])[-1:] for end in ends)
        return any(time_us < begin + _LIFETIME_US for last in begins for begin in last)

    def accuse(self, flow: int, time_us: int) -> bool:
        """Take a malicious flow; say whether its source is blocked now."""
        source = int(self._accused.source[flow])
        if not self._evidence.take(time_us, source, flow):
            return False
        self._blocks.setdefault(source, []).append(time_us + _REACTION_US)
        self._evidence.forget(source)
        return True

    def begin(self, first: Integers, last: Integers) -> Integers:
        """(m,) When packets of each flow are blocked first, with an end of it; else never."""
        found = np.full(len(first), _NEVER)
        for source, begins in self._blocks.items():
            touched = (self._accused.source == source) | (self._accused.target == source)
            for begin in begins:
                meets = touched & (first < begin + _LIFETIME_US) & (last >= begin)
                found[meets] = np.minimum(found[meets], np.maximum(first[meets], begin))
        return found
