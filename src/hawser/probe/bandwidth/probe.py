"""Probe that estimates the available bandwidth of an idle path by packet trains."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from hawser.node.base import NodeError
from hawser.probe.bandwidth.samples import samples
from hawser.probe.bandwidth.trains import Sender, route
from hawser.probe.base import Context, ProbeError
from hawser.spec.measurement import Bandwidth
from hawser.stats.bandwidth import Arrivals, Limits, Search
from hawser.store.sample import Sample

_OVERHEAD_S = 1.0
"""Time that starting and reading a train takes, about."""
_FAILURES = 3
"""Trains in a row of which nothing comes, after which there is no path."""

Send = Callable[..., Arrivals]


class BandwidthProbe:
    """Spreads trains over the duration, and says what they tell."""

    def __init__(
        self,
        spec: Bandwidth,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._sleep = sleep
        self._clock = clock

    def measure(self, context: Context) -> list[Sample]:
        """Send trains until the traffic allowed is used or the time is over.

        Raises:
            ProbeError: nothing came of several trains in a row, or a daemon failed.
        """
        search, sent = self._search(), list[dict[str, Any]]()
        begin = self._clock()
        try:
            sender = Sender(route(context, self._spec), context.lab.hawserd, self._sleep)
            context.started()
            begin = self._clock()
            self._send(search, sender, begin + self._spec.duration, sent)
        except (NodeError, ProbeError) as error:
            place = f"bandwidth {self._spec.source} -> {self._spec.target}"
            raise ProbeError(f"{place}: {error}") from error
        finally:
            path = context.raw / f"{context.measurement}.trains.json"
            path.write_text(json.dumps(sent) + "\n", encoding="utf-8")
        seconds = self._clock() - begin
        return list(self._samples(context.measurement, search, seconds))

    def _search(self) -> Search:
        spec = self._spec
        return Search(Limits(spec.port, spec.share, spec.duration, spec.size))

    def _send(self, search: Search, sender: Sender, end: float, kept: list[dict[str, Any]]) -> None:
        failures = 0
        while (train := search.next()) is not None:
            begin = self._clock()
            if begin + train.seconds + _OVERHEAD_S > end:
                return
            try:
                arrivals = sender.send(train)
            except ProbeError:
                failures += 1
                search.lost(train)
                if failures == _FAILURES:
                    raise
            else:
                failures = 0
                search.take(arrivals)
                kept.append(_record(arrivals, search))
            pause = (end - begin - _OVERHEAD_S) / (search.left + 1) - (self._clock() - begin)
            self._sleep(max(0.0, min(pause, end - self._clock())))

    def _samples(self, measurement: str, search: Search, seconds: float) -> Iterator[Sample]:
        taken = {
            "probe_traffic": 100 * search.spent / (self._spec.port * self._spec.duration),
            "probe_time": seconds,
            "trains_disturbed": float(search.disturbed),
        }
        return samples(measurement, search.estimate(), taken)

    def seconds(self) -> float:
        """Time over which trains are spread, in seconds."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """Commands that find the next hop."""
        return ("ip", "ping")


def _record(arrivals: Arrivals, search: Search) -> dict[str, Any]:
    """What is kept of a train: its delays, and the estimate up to it."""
    train, found = arrivals.train, search.estimate()
    origin = arrivals.sent[0]
    pairs = zip(arrivals.sent - origin, arrivals.delays(), arrivals.came, strict=True)
    return {
        "size": train.size,
        "rate_bps": train.rate,
        "frames": train.frames,
        "fill_bps": train.fill_rate,
        "fill_frames": train.fill_frames,
        "disturbed": search.disturbed,
        "available_bps": found.available,
        "low_bps": found.low,
        "high_bps": found.high,
        "sent_us_delay_us": [
            [round(1e6 * at), round(1e6 * delay) if came else None] for at, delay, came in pairs
        ],
    }
