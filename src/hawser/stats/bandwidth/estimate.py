"""From trains to available bandwidth and capacity, with the error of the estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from hawser.stats.bandwidth.train import Arrivals

CONFIDENCE: Final = 0.95
"""Nominal level of the interval. What it holds is measured: `make bench-bandwidth`."""
_FLOOR: Final = 0.02
"""Least half width, as a share of the estimate: sizes of headers, errors of timestamps."""
_EMPTY: Final = 0.2
"""Share of the intended backlog below which the queue counts as empty."""
_FULL: Final = 0.8
"""Share of the longest queue from which other traffic may be dropped."""
_FEWEST: Final = 3
"""Trains without which there is no error to state but that of not knowing."""
_SLOWEST: Final = 0.01
"""Least capacity, in terms of the port's rate."""
_FASTER: Final = 1.5
"""The capacity is at most so much above the rate at which saturated fills arrive."""


@dataclass(frozen=True)
class Window:
    """A time in which the queue was never empty and nothing was lost."""

    bits: float
    """Of the train, that were sent in it."""
    seconds: float
    """From the first to the last of these frames, when sent."""
    growth: float
    """Of the delay in that time, seconds."""


@dataclass(frozen=True)
class Reading:
    """What a train says."""

    fill: Window | None
    body: Window
    backlog: float
    """Delay in the queue after the fill, seconds; infinite if it overflowed."""
    emptied: bool
    """Whether the queue was empty before the train ended."""


@dataclass(frozen=True)
class Estimate:
    """Bandwidth of a path, bit/s, of frames without frame check sequence."""

    available: float
    low: float
    """Lower bound of what is available, with the confidence `CONFIDENCE`."""
    high: float
    capacity: float | None
    """Of the tightest link; None if unknown."""
    trains: int
    """That the estimate rests on; of a passive one, values."""


@dataclass(frozen=True)
class Fit:
    """Solution of the model, bit/s."""

    available: float
    capacity: float


def read(arrivals: Arrivals, least: float, intended: float, longest: float) -> Reading | None:
    """Read a train.

    Its windows end where the queue is empty, where it may overflow and at the first loss. Each is a
    stopping time, so the mean growth in a window is that of the whole train (Wald's identity).

    Args:
        arrivals: of the train.
        least: smallest delay of all trains, seconds: that of an empty queue.
        intended: backlog that the fill should have built, seconds.
        longest: longest queue that was seen where frames were lost, seconds.

    Returns:
        None if the queue was empty, or full, all the time.
    """
    low, high = _EMPTY * intended, _FULL * longest
    delays = arrivals.delays() - least
    filled = arrivals.train.fill_s + arrivals.sent[0]
    body = int(np.searchsorted(arrivals.sent, filled, "right"))
    inside = (delays > low) & (delays < high)
    starts = np.flatnonzero(inside[body:])
    if not len(starts):
        return None
    first = body + int(starts[0])
    stops = np.flatnonzero(~inside[first:])
    last = first + int(stops[0]) if len(stops) else len(delays) - 1
    if not np.isfinite(delays[last]):
        last -= 1
    busy = np.flatnonzero(inside[:body])
    fill = None
    if len(busy) and inside[busy[0] : body].all():
        # the first half may still have drained the shaper's bucket
        fill = _window(arrivals, (int(busy[0]) + body) // 2, body - 1)
    emptied = bool(delays[last] <= low)
    return Reading(fill, _window(arrivals, first, last), float(delays[body]), emptied)


def _window(arrivals: Arrivals, first: int, last: int) -> Window:
    delays = arrivals.delays()
    seconds = float(arrivals.sent[last] - arrivals.sent[first])
    bits = 8.0 * arrivals.train.size * (last - first)
    return Window(bits, seconds, float(delays[last] - delays[first]))


def fit(readings: Sequence[Reading], port: float) -> Fit:
    """Solve growth = bits / C - A / C seconds for available bandwidth A and capacity C.

    Least squares; the variance of a growth is that of other traffic's volume, in proportion to the
    time. Where windows do not tell C, it is bounded by the rate at which fills came, and the port.

    Args:
        readings: at least one.
        port: declared rate of the sending port, bit/s.
    """
    windows = [w for each in readings for w in (each.fill, each.body) if w and w.seconds > 0]
    if not windows:
        return Fit(0.0, port)
    bits, seconds, growth = (
        np.array([getattr(window, name) for window in windows])
        for name in ("bits", "seconds", "growth")
    )
    weight = np.sqrt(seconds)
    columns = np.stack([bits / port, -seconds], axis=1) / weight[:, None]
    (inverse, share), *_ = np.linalg.lstsq(columns, growth / weight, rcond=None)
    low, high = _capacity_bounds(readings, port)
    capacity = port / inverse if inverse > 0 else math.inf
    if low <= capacity <= high:
        return Fit(float(min(max(share * capacity, 0.0), capacity)), float(capacity))
    capacity = min(max(capacity, low), high)
    available = (np.sum(bits) - capacity * np.sum(growth)) / np.sum(seconds)
    return Fit(float(min(max(available, 0.0), capacity)), capacity)


def _capacity_bounds(readings: Sequence[Reading], port: float) -> tuple[float, float]:
    fills = [each.fill for each in readings if each.fill and each.fill.growth > 0]
    seconds = sum(fill.seconds + fill.growth for fill in fills)
    if not seconds:
        return _SLOWEST * port, port
    arrived = min(sum(fill.bits for fill in fills) / seconds, port)
    return max(0.9 * arrived, _SLOWEST * port), min(_FASTER * arrived, port)


def estimate(readings: Sequence[Reading], port: float) -> Estimate:
    """Estimate from all trains, with a jackknife interval (Quenouille, Tukey) over trains.

    Args:
        readings: of the trains that say something.
        port: declared rate of the sending port, bit/s.

    Returns:
        With fewer than three trains everything up to the port's rate is possible, and said to be.
    """
    count = len(readings)
    if count < _FEWEST:
        guess = fit(readings, port) if readings else Fit(port / 2, port)
        capacity = guess.capacity if readings else None
        return Estimate(guess.available, 0.0, port, capacity, count)
    found = fit(readings, port)
    without = [fit([*readings[:i], *readings[i + 1 :]], port).available for i in range(count)]
    error = math.sqrt((count - 1) * float(np.var(without)))
    half = float(student.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    half = math.hypot(half, _FLOOR * found.available)
    low, high = max(0.0, found.available - half), min(port, found.available + half)
    return Estimate(found.available, low, max(high, low), found.capacity, count)


def passive(rates: Sequence[float], port: float) -> Estimate:
    """Estimate from what a loaded path carried: the median, with its order-statistic interval.

    Args:
        rates: delivery rates measured while the path was full, bit/s, each over a time of its own.
        port: declared rate of the sending port, bit/s.

    Returns:
        With fewer values than an interval of this confidence needs (six), its bounds are 0 and
        the port's rate.
    """
    if not rates:
        return Estimate(port / 2, 0.0, port, None, 0)
    ordered, count = sorted(rates), len(rates)
    middle = float(np.median(ordered))
    rank = int(binom.ppf((1 - CONFIDENCE) / 2, count, 0.5))
    if rank == 0:
        return Estimate(middle, 0.0, max(port, middle), None, count)
    half = _FLOOR * middle
    low, high = ordered[rank - 1], ordered[count - rank]
    return Estimate(middle, min(low, middle - half), max(high, middle + half), None, count)
