"""Idle tunnels that gateways measure for the planner: which ones now, and what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hawser.control.link import Measure, Measured, Place
from hawser.optimise.measured import KNOWN_BY_TRAINS_S, Estimate
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.route import Hop, Stop

SECONDS: Final = 20.0
"""Over which the trains of one tunnel are spread: three tunnels a minute take 1 % of their port."""
_PATIENCE_S: Final = 2 * SECONDS
"""After it a gateway that has not answered is not waited for."""
_AGAIN_S: Final = 120.0
"""Pause after a measurement that failed."""
_MOST_BPS: Final = 1e10
"""Rate that a port without a declared one is taken to have."""

Ports = Mapping[Stop, float]
"""Declared rates to the WAN, bit/s."""
Ask = Callable[[Measure], None]
"""Sends a message to a gateway, from whichever thread."""


@dataclass(frozen=True)
class _Asked:
    hop: Hop
    time: float
    """Seconds since 1970."""


class Trains:
    """Gateways that measure, tunnels that are measured, and results. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gateways: dict[str, Ask] = {}
        self._asked: dict[tuple[str, Place], _Asked] = {}
        self._began: dict[Stop, float] = {}
        """When a measurement began at each port last: its trains may take the whole time."""
        self._failed: dict[Hop, float] = {}
        self._found: dict[Hop, Estimate] = {}

    def join(self, branch: str, ask: Ask) -> None:
        """Take a gateway that measures."""
        with self._lock:
            self._gateways[branch] = ask

    def leave(self, branch: str, ask: Ask) -> None:
        """Forget it, unless it has connected once more."""
        with self._lock:
            if self._gateways.get(branch) == ask:
                del self._gateways[branch]
                self._asked = {k: v for k, v in self._asked.items() if k[0] != branch}

    def ask(
        self, now: float, wanted: Iterable[Hop], places: Mapping[Hop, Place], ports: Ports
    ) -> None:
        """Have tunnels measured, at each port one at a time.

        Args:
            now: seconds since 1970.
            wanted: tunnels, the most important first.
            places: their direct paths, from the gateways at which they begin.
            ports: rates of their ports.
        """
        with self._lock:
            for key, each in tuple(self._asked.items()):
                if now - each.time > _PATIENCE_S:
                    del self._asked[key]
                    self._failed[each.hop] = now
            busy = {stop for each in self._asked.values() for stop in each.hop}
            busy |= {stop for stop, began in self._began.items() if now - began < SECONDS}
            for hop in wanted:
                sender = self._gateways.get(hop[0].branch)
                rate = min(ports.get(hop[0], 0.0), _MOST_BPS)
                failed = now - self._failed.get(hop, -_AGAIN_S) < _AGAIN_S
                if hop not in places or sender is None or rate <= 0 or failed:
                    continue
                if busy.isdisjoint(hop):
                    busy.update(hop)
                    self._began |= dict.fromkeys(hop, now)
                    self._asked[hop[0].branch, places[hop]] = _Asked(hop, now)
                    sender(Measure(place=places[hop], port=rate, seconds=SECONDS))

    def take(self, branch: str, found: Measured, now: float) -> None:
        """Take what a gateway has measured; what nobody asked for is ignored."""
        with self._lock:
            asked = self._asked.pop((branch, found.place), None)
            if asked is None:
                return
            estimate = Estimate(now, found.available, found.low, found.high)
            if found.error or not estimate.is_known:
                self._failed[asked.hop] = now
            else:
                self._failed.pop(asked.hop, None)
                self._found[asked.hop] = estimate

    def found(self, now: float) -> Mapping[Hop, Estimate]:
        """Give what is known by trains."""
        with self._lock:
            self._found = {
                hop: each
                for hop, each in self._found.items()
                if now - each.time <= KNOWN_BY_TRAINS_S
            }
            return dict(self._found)


def places(fabric: Fabric) -> dict[Hop, Place]:
    """Give the direct path of each tunnel, from the gateway at which the tunnel begins."""
    return dict(_places(fabric))


def _places(fabric: Fabric) -> Iterator[tuple[Hop, Place]]:
    for group in fabric.groups:
        one, other = group.branches
        for member, path in enumerate(group.paths):
            if len(path.hops) == 1:
                (left, came) = path.hops[0]
                yield (left, came), Place(peer=other, group=group.number, member=member)
                yield (came, left), Place(peer=one, group=group.number, member=member)
