"""A simulated path: a shaper with a bucket and a queue, other traffic, clocks that are disturbed.

Frames of a train and of other traffic share a first-in-first-out queue in front of a token bucket:
while it holds enough they leave at the rate of the line behind it, otherwise at the bucket's rate.
Only what surrounds a train is simulated frame by frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hawser.stats.bandwidth import Arrivals, Estimate, Limits, Search, Train

Values = NDArray[np.float64]
Cross = Literal["none", "constant", "poisson", "bursty"]

_MINUTE_S: Final = 60.0
_WARM_UP_S: Final = 1.5
"""Other traffic before a train, which fills the queue as it usually is."""
_SOURCES: Final = 40
_ON_SHARE: Final = 0.35
_ON_S: Final = 0.15
"""Sources of bursty traffic: how many, how often and how long they send."""
_TAIL: Final = 1.5
"""Pareto shape of those times: the sum is self-similar (Willinger et al., ToN 5:1, 1997)."""
_OFFSET_S: Final = 0.0123
"""Delay of the path and difference of the clocks."""
_SIZES: Final = (np.array([64, 576, 1514]), np.array([0.3, 0.1, 0.6]))
"""Frame sizes of other traffic, bytes, and how frequent they are."""


@dataclass(frozen=True)
class Case:
    """A path whose available bandwidth is known."""

    seed: int
    port: float
    """Declared rate of the port, bit/s."""
    rate: float
    """Rate of the tightest link, bit/s."""
    line: float
    """Rate at which frames leave while the bucket holds enough, bit/s."""
    burst_s: float
    """Size of the bucket, in seconds at `rate`."""
    queue_s: float
    """Length of the queue, in seconds at `rate`."""
    load: float
    """Share of the rate that other traffic takes on average."""
    cross: Cross
    noise_s: float
    """Mean error of a receive timestamp."""
    stalls: int
    """How often in a minute the receiver stands still for half a second."""


def draw(seed: int) -> Case:
    """Draw a case: 1 to 1000 Mbit/s, other traffic 0 to 80 %, half of them shapers with bursts."""
    random = np.random.default_rng([seed, 1])
    rate = 10 ** random.uniform(6, 9)
    bucket = random.random() < 0.5
    load = random.uniform(0, 0.8)
    return Case(
        seed=seed,
        port=rate * random.choice([1.0, 1.25, 2.0]),
        rate=rate,
        line=rate * random.uniform(2, 20) if bucket else rate,
        burst_s=10 ** random.uniform(-3, -1.3) if bucket else 0.0,
        queue_s=10 ** random.uniform(-1.7, -0.5),
        load=load,
        cross=random.choice(["constant", "poisson", "bursty"]),
        noise_s=10 ** random.uniform(-6, -4),
        stalls=int(random.random() < 0.1) * 6,
    )


class SimulatedPath:
    """Carries trains. Time is virtual, in seconds."""

    def __init__(self, case: Case, offset: float = _OFFSET_S) -> None:
        self._case = case
        self._offset = offset
        self._random = np.random.default_rng([case.seed, 2])
        self._on = self._sources() if case.cross == "bursty" else ()
        self._stalls = np.sort(self._random.uniform(0, _MINUTE_S, case.stalls))

    @property
    def available(self) -> float:
        """Mean available bandwidth of the minute, bit/s."""
        case = self._case
        if case.cross != "bursty":
            return case.rate * (1 - case.load)
        sent = sum(float(np.sum(ends - starts)) for starts, ends in self._on)
        return case.rate - sent / _MINUTE_S * self._peak

    @property
    def _peak(self) -> float:
        return self._case.load * self._case.rate / (_SOURCES * _ON_SHARE)

    def _sources(self) -> tuple[tuple[Values, Values], ...]:
        count = int(4 * _MINUTE_S * _ON_SHARE / _ON_S) + 50
        found = []
        for _ in range(_SOURCES):
            scale = _ON_S * (_TAIL - 1)
            on = np.minimum(scale * (1 + self._random.pareto(_TAIL, count)), 3.0)
            off = np.minimum(scale * (1 + self._random.pareto(_TAIL, count)), 3.0)
            off *= (1 - _ON_SHARE) / _ON_SHARE
            starts = np.cumsum(on + off) - on - self._random.uniform(0, 1)
            ends = np.clip(starts + on, 0, _MINUTE_S)
            found.append((np.clip(starts, 0, _MINUTE_S), ends))
        return tuple(found)

    def carry(self, at: float, train: Train) -> Arrivals:
        """Send a train at a time within the minute."""
        sent = at + train.times()
        begin, end = at - _WARM_UP_S, float(sent[-1]) + 0.05
        others, sizes = self._others(begin, end)
        arrive = np.concatenate([others, sent])
        bits = np.concatenate([sizes, np.full(len(sent), 8.0 * train.size)])
        mine = np.concatenate([np.zeros(len(others), bool), np.ones(len(sent), bool)])
        order = np.argsort(arrive, kind="stable")
        left = self._leave(arrive[order], bits[order])[mine[order]]
        came = np.isfinite(left)
        received = np.full(len(sent), np.inf)
        received[came] = self._stamped(left[came]) + self._offset
        return Arrivals(train=train, sent=sent, received=received)

    def _others(self, begin: float, end: float) -> tuple[Values, Values]:
        """Times and bits of other traffic in an interval."""
        case, (sizes, shares) = self._case, _SIZES
        mean = 8 * float(sizes @ shares)
        if case.load == 0 or case.cross == "none":
            return np.empty(0), np.empty(0)
        if case.cross == "constant":
            step = 8 * 1514 / (case.load * case.rate)
            times = np.arange(begin + self._random.uniform(0, step), end, step)
            return times, np.full(len(times), 8.0 * 1514)
        if case.cross == "poisson":
            times = self._poisson(begin, end, case.load * case.rate / mean)
        else:
            spans = [
                (max(begin, start), min(end, stop))
                for starts, ends in self._on
                for start, stop in zip(starts, ends, strict=True)
                if start < end and stop > begin
            ]
            parts = [self._poisson(low, high, self._peak / mean) for low, high in spans]
            times = np.concatenate([np.empty(0), *parts])
        return times, 8.0 * self._random.choice(sizes, len(times), p=shares)

    def _poisson(self, begin: float, end: float, rate: float) -> Values:
        count = self._random.poisson(rate * max(0.0, end - begin))
        return self._random.uniform(begin, end, count)

    def _leave(self, arrive: Values, bits: Values) -> Values:
        """When frames leave; infinite for those that a full queue drops."""
        case = self._case
        left = _served(arrive, bits, case)
        backlog = (left - arrive) * case.rate
        if len(left) and float(backlog.max()) > case.queue_s * case.rate:
            return _dropping(arrive, bits, case)
        return left

    def _stamped(self, left: Values) -> Values:
        """Receive timestamps: late by noise, and by stalls of the receiver."""
        came = left + self._random.exponential(self._case.noise_s, len(left))
        for stall in self._stalls:
            came = np.where((came >= stall) & (came < stall + 0.5), stall + 0.5, came)
        return np.maximum.accumulate(came)


def _served(arrive: Values, bits: Values, case: Case) -> Values:
    """When frames leave a queue without an end (Lindley's recursion, as running maxima)."""
    serve = bits / case.rate
    total = np.cumsum(serve)
    conform = total + np.maximum.accumulate(arrive - (total - serve)) - case.burst_s
    ready = np.maximum(arrive, conform)
    line = bits / case.line
    passed = np.cumsum(line)
    if case.burst_s == 0:
        return conform
    return passed + np.maximum.accumulate(ready - (passed - line))


def _dropping(arrive: Values, bits: Values, case: Case) -> Values:
    """The same with a queue that drops what does not fit, frame by frame."""
    left = np.full(len(arrive), np.inf)
    conform = last = -np.inf
    for i, (at, size) in enumerate(zip(arrive.tolist(), bits.tolist(), strict=True)):
        virtual = max(at, conform) + size / case.rate
        ready = max(at, virtual - case.burst_s)
        leaves = ready if case.burst_s == 0 else max(ready, last) + size / case.line
        if leaves - at <= case.queue_s:
            left[i], conform, last = leaves, virtual, leaves
    return left


@dataclass(frozen=True)
class Found:
    """An estimate beside the truth."""

    truth: float
    """Mean available bandwidth of the minute, bit/s."""
    estimate: Estimate
    spent: float
    """Bits that trains took."""
    seconds: float
    """From the first train to the end of the last."""
    disturbed: int
    """Trains that were disturbed."""

    @property
    def error(self) -> float:
        """Relative to the truth."""
        return self.estimate.available / self.truth - 1

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the truth."""
        return self.estimate.low <= self.truth <= self.estimate.high


def estimated(case: Case, offset: float = _OFFSET_S) -> Found:
    """Estimate a path over a minute, as the probe does on real ones.

    Args:
        case: the path.
        offset: its delay and the difference of the clocks, seconds.
    """
    path, search = SimulatedPath(case, offset=offset), Search(Limits(case.port))
    chance = np.random.default_rng([case.seed, 3])
    begin = at = end = _WARM_UP_S
    while (train := search.next()) is not None and at + train.seconds < _MINUTE_S:
        search.take(path.carry(at, train))
        end = at + train.seconds
        pause = (_MINUTE_S - 1 - at) / search.left * chance.uniform(0.6, 1.2)
        at += max(1.0, train.seconds, pause)
    return Found(path.available, search.estimate(), search.spent, end - begin, search.disturbed)
