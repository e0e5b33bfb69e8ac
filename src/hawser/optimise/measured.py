"""From what gateways report once a second to the rates and the demand of a path program.

Measurement is passive. Traffic is limited by its paths, and not by its hosts, while packets for the
peer wait at the gateway. Only then what a path's congestion control measures is the rate of the
path: below, it is that of the traffic. And only while none of the path's ports is full is it the
rate of the tunnel: the program knows ports. A path through another branch is limited by one of its
tunnels: what it measures counts for those of them that no direct path has measured. The median of
three values counts, for a minute; after it, and for tunnels that nothing is measured of, what is
declared. A value does not count any more once the tunnel carries more beside a full port, where
nothing newer is measured. A tunnel whose path worked and does not any more has the rate 0.

Tunnels that nothing has measured so count as trains of packets found them: with the lower bound of
what they carry, because a group that was promised too much is too small.

Loss and delay of a tunnel are those of its direct path in the last minute (`qualities`).

What two branches send is their demand while nothing waits. While something does, nobody knows how
much more would come: the demand counts as four times that. The largest value of the last 30 s
counts, because paths that have become worse make the traffic less, but not the demand.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Final

from hawser.optimise.members import Way
from hawser.optimise.wan import Demand, Pair, Quality, Wan
from hawser.spec.route import Hop, Stop

LOADED: Final = 0.5
"""A path that sends at least this share of its measured rate takes part in carrying the load."""
WAITING: Final = 3000.0
"""Bytes that wait at a gateway whose paths are full: the median of three values, so no burst."""
_SILENT: Final = 2
"""Reports in a row that call a path down before it counts as such."""
_FULL_PORT: Final = 0.85
"""A port that carries at least this share of its rate limits what passes it."""
_VALUES: Final = 3
_KNOWN_S: Final = 60.0
KNOWN_BY_TRAINS_S: Final = 600.0
"""Age at which what trains found is measured anew."""
_WIDEST: Final = 0.5
"""Width of an interval, in terms of the estimate, from which it says nothing."""
_DEMAND_S: Final = 30.0
_MORE: Final = 4.0
_IDLE: Final = 0.05
"""Share of its rate up to which a port counts as idle, both directions together."""
_FASTEST: Final = 1e9
"""Rate that counts of a port without a declared one, bit/s."""
_LEAST: Final = 1e5
"""Demand of all pairs, bit/s: so that there is a plan for traffic that begins."""
_RECENT_S: Final = 3.0
"""Age of a report that still says what is sent now."""


@dataclass(frozen=True)
class PathReading:
    """What a gateway says of a path. Rates are bit/s."""

    way: Way
    """From this gateway's branch."""
    sent: float
    capacity: float
    up: bool
    loss: float = math.nan
    """Share of bytes lost; NaN where nothing is measured, as below."""
    rtt: float = math.nan
    """Smoothed, s."""


@dataclass(frozen=True)
class Reading:
    """What the gateway of a branch says in one second."""

    branch: str
    time: float
    """Seconds, of the clock with which `Measured` is asked."""
    paths: tuple[PathReading, ...]
    sent: Mapping[str, float]
    """Inner bit/s to each peer."""
    waiting: Mapping[str, float] = field(default_factory=dict)
    """Bytes that wait for each peer."""


@dataclass(frozen=True)
class Estimate:
    """What trains found of a tunnel that nothing uses. Rates are bit/s."""

    time: float
    available: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether the interval is narrow enough to go by."""
        return self.high - self.low <= _WIDEST * self.available


class Measured:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        self._rates: dict[Hop, deque[tuple[float, float]]] = {}
        """What direct paths measured, with its time."""
        self._within: dict[Hop, deque[tuple[float, float]]] = {}
        """What longer paths measured, of tunnels in them."""
        self._qualities: dict[Hop, deque[tuple[float, float, float]]] = {}
        """Time, loss and delay of each direct path's tunnel."""
        self._demand: dict[Pair, deque[tuple[float, float]]] = {}
        self._waiting: dict[Pair, deque[float]] = {}
        self._worked: set[Hop] = set()
        self._silent: dict[Hop, int] = {}
        self._beside_full: dict[Hop, float] = {}
        """What a tunnel carried in the last report, if a port of it was full."""

    def take(self, declared: Wan, readings: Iterable[Reading]) -> None:
        """Take reports, at most one a branch, all of about the same time."""
        new = [
            each
            for each in readings
            if each.branch not in self._last or each.time > self._last[each.branch].time
        ]
        self._last.update({each.branch: each for each in new})
        now = max((each.time for each in self._last.values()), default=0.0)
        # A report that comes late tells of a time of which newer ones of others say nothing.
        times = {each.branch: now if now - each.time <= _RECENT_S else each.time for each in new}
        known = {time: self._carried(declared, time) for time in set(times.values())}
        for each in new:
            loads, full = known[times[each.branch]]
            self._take_waiting(each)
            self._take_qualities(each)
            self._take_rates(each, loads, full)
            self._take_within(each, loads, full)
            self._forget_refuted(each.branch, loads, full)
            self._take_demand(each)

    def _carried(self, declared: Wan, time: float) -> tuple[Mapping[Hop, float], set[Stop]]:
        """Give what tunnels carried at a time, and which ports were full."""
        loads, full = self._loads(time, frozenset()), set[Stop]()
        out, into = dict[Stop, float](), dict[Stop, float]()
        for (left, came), load in loads.items():
            out[left] = out.get(left, 0.0) + load
            into[came] = into.get(came, 0.0) + load
        for stop, limits in declared.ports.items():
            if out.get(stop, 0.0) >= _FULL_PORT * limits.egress:
                full.add(stop)
            if into.get(stop, 0.0) >= _FULL_PORT * limits.ingress:
                full.add(stop)
        return loads, full

    def loads_of_others(self, pairs: Iterable[Pair], now: float) -> Mapping[Hop, float]:
        """Give what is sent over each tunnel between other branches than these, bit/s."""
        return self._loads(now, frozenset(map(frozenset, pairs)))

    def idle(self, declared: Wan, now: float) -> frozenset[Hop]:
        """Give the tunnels whose ports carry hardly anything.

        Trains fill queues on purpose. At a port that is used they would cost the traffic packets.
        """
        sent = dict.fromkeys(declared.ports, 0.0)
        for hop, load in self._loads(now, frozenset()).items():
            for stop in hop:
                sent[stop] = sent.get(stop, 0.0) + load
        used = {
            stop
            for stop, limits in declared.ports.items()
            if sent[stop] > _IDLE * min(limits.egress, limits.ingress, _FASTEST)
        }
        return frozenset(hop for hop in declared.tunnels if used.isdisjoint(hop))

    def _loads(self, now: float, ignored: frozenset[frozenset[str]]) -> dict[Hop, float]:
        """Give what all paths together send over each tunnel."""
        loads: dict[Hop, float] = {}
        recent = (each for each in self._last.values() if abs(now - each.time) <= _RECENT_S)
        for path in (path for reading in recent for path in reading.paths):
            ends = frozenset((path.way[0][0].branch, path.way[-1][1].branch))
            for hop in path.way if ends not in ignored else ():
                loads[hop] = loads.get(hop, 0.0) + path.sent
        return loads

    def _take_waiting(self, reading: Reading) -> None:
        for peer in reading.sent:
            values = self._waiting.setdefault((reading.branch, peer), deque(maxlen=_VALUES))
            values.append(reading.waiting.get(peer, 0.0))

    def _is_limited(self, branch: str, peer: str) -> bool:
        """Tell whether a branch would send more to another one if its paths carried more."""
        return median(self._waiting.get((branch, peer), (0.0,))) >= WAITING

    def _limits(self, branch: str, path: PathReading) -> bool:
        """Tell whether a path, and not its traffic, limits what a branch sends over it."""
        busy = path.up and path.sent >= LOADED * path.capacity > 0
        return busy and self._is_limited(branch, path.way[-1][1].branch)

    def _take_qualities(self, reading: Reading) -> None:
        for path in reading.paths:
            if len(path.way) == 1 and path.up and not math.isnan(path.rtt):
                values = self._qualities.setdefault(path.way[0], deque())
                loss = 0.0 if math.isnan(path.loss) else path.loss
                values.append((reading.time, loss, path.rtt / 2))

    def _take_rates(self, reading: Reading, loads: Mapping[Hop, float], full: set[Stop]) -> None:
        found: dict[Hop, float] = {}
        working: dict[Hop, bool] = {}
        for path in reading.paths:
            if len(path.way) == 1:
                (tunnel,) = path.way
                working[tunnel] = path.up or working.get(tunnel, False)
                if self._limits(reading.branch, path) and full.isdisjoint(tunnel):
                    rate = max(path.capacity, loads.get(tunnel, 0.0))
                    found[tunnel] = max(rate, found.get(tunnel, 0.0))
        for tunnel, works in working.items():
            self._take_state(tunnel, works)
            if self._silent.get(tunnel, 0) >= _SILENT:
                found[tunnel] = 0.0
        for tunnel, rate in found.items():
            self._rates.setdefault(tunnel, deque(maxlen=_VALUES)).append((reading.time, rate))

    def _take_within(self, reading: Reading, loads: Mapping[Hop, float], full: set[Stop]) -> None:
        """Take the rates of longer paths: one of their tunnels limits them.

        Which one is not known, so it is true of all of them, unless one is known to be full.
        """
        found: dict[Hop, float] = {}
        for path in reading.paths:
            ends = {stop for tunnel in path.way for stop in tunnel}
            if len(path.way) == 1 or not self._limits(reading.branch, path):
                continue
            if not full.isdisjoint(ends):
                continue
            known = {tunnel: self._known(self._rates, tunnel, reading.time) for tunnel in path.way}
            if any(
                rate is not None and loads.get(tunnel, 0.0) >= _FULL_PORT * rate
                for tunnel, rate in known.items()
            ):
                continue
            for tunnel in path.way:
                rate = max(path.capacity, loads.get(tunnel, 0.0))
                found[tunnel] = max(rate, found.get(tunnel, 0.0))
        for tunnel, rate in found.items():
            self._within.setdefault(tunnel, deque(maxlen=_VALUES)).append((reading.time, rate))

    def _forget_refuted(self, branch: str, loads: Mapping[Hop, float], full: set[Stop]) -> None:
        """Forget rates that a tunnel exceeds in two reports in a row while a port of it is full.

        Nothing newer is measured then, so one slow second would count for a minute. A single report
        does not refute a rate: it may tell of what fills a queue.
        """
        for tunnel in (each for each in loads if each[0].branch == branch):
            now = 0.0 if full.isdisjoint(tunnel) else loads[tunnel]
            carried = min(now, self._beside_full.get(tunnel, 0.0))
            self._beside_full[tunnel] = now
            for rates in (self._rates, self._within):
                if tunnel in rates:
                    kept = [each for each in rates[tunnel] if each[1] >= carried]
                    rates[tunnel] = deque(kept, maxlen=_VALUES)

    def _known(
        self, rates: Mapping[Hop, deque[tuple[float, float]]], tunnel: Hop, now: float
    ) -> float | None:
        """Give the rate of a tunnel that was measured in the last minute."""
        values = [rate for at, rate in rates.get(tunnel, ()) if now - at <= _KNOWN_S]
        return median(values) if values else None

    def _take_state(self, tunnel: Hop, works: bool) -> None:
        """Count since when a tunnel is silent that has worked; forget that once it works."""
        if not works:
            if tunnel in self._worked:
                self._silent[tunnel] = self._silent.get(tunnel, 0) + 1
            return
        self._worked.add(tunnel)
        if self._silent.pop(tunnel, 0) >= _SILENT:
            self._rates.pop(tunnel, None)

    def _take_demand(self, reading: Reading) -> None:
        for peer, sent in reading.sent.items():
            wanted = sent * (_MORE if self._is_limited(reading.branch, peer) else 1.0)
            self._demand.setdefault((reading.branch, peer), deque()).append((reading.time, wanted))

    def wan(
        self, declared: Wan, now: float, trains: Mapping[Hop, Estimate] = MappingProxyType({})
    ) -> Wan:
        """Give ports as declared, and tunnels as measured, by traffic or trains, or declared."""
        tunnels, unmeasured = dict[Hop, float](), set[Hop]()
        for tunnel, rate in declared.tunnels.items():
            measured = self._known(self._rates, tunnel, now)
            if measured is None:
                measured = self._known(self._within, tunnel, now)
            if measured is None:
                unmeasured.add(tunnel)
                measured = min(rate, trains[tunnel].low) if tunnel in trains else rate
            tunnels[tunnel] = measured
        return Wan(declared.ports, tunnels, unmeasured=frozenset(unmeasured))

    def qualities(self, now: float) -> Mapping[Hop, Quality]:
        """Give what else is measured of tunnels: mean loss and least delay of the last minute.

        One lost probe of an idle path is an eighth of its loss for eight seconds, and queues that
        the traffic itself fills are no reason to take it elsewhere.
        """
        found = {}
        for tunnel, values in self._qualities.items():
            while values and now - values[0][0] > _KNOWN_S:
                values.popleft()
            if values:
                loss = sum(each for _, each, _ in values) / len(values)
                found[tunnel] = Quality(loss, min(delay for _, _, delay in values))
        return found

    def demand(self, pairs: Iterable[Pair], now: float) -> Demand:
        """Give the demand of pairs of branches, both directions of each, bit/s."""
        found: dict[Pair, float] = {}
        for one, other in pairs:
            for pair in ((one, other), (other, one)):
                values = self._demand.get(pair, deque())
                while values and now - values[0][0] > _DEMAND_S:
                    values.popleft()
                wanted = max((value for _, value in values), default=0.0)
                found[pair] = max(_LEAST, wanted) if math.isfinite(wanted) else _LEAST
        return found
