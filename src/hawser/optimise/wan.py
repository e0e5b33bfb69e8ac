"""What a path program is given: ports, the tunnels between them, and the traffic demanded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hawser.spec.route import Hop, Stop

Pair = tuple[str, str]
"""Source and destination branch: one direction."""
Demand = Mapping[Pair, float]
"""Rates that pairs want to send, bit/s."""


@dataclass(frozen=True)
class Limits:
    """A WAN port, for everything that passes it: at the source, at a transit branch, at the end."""

    egress: float = math.inf
    """Rate to the WAN, bit/s."""
    ingress: float = math.inf
    """Rate from the WAN, bit/s."""
    cost_per_gb: float = 0.0
    """Price of 10^9 bytes, either direction."""


@dataclass(frozen=True)
class Quality:
    """What is measured of a tunnel besides its rate."""

    loss: float = 0.0
    """Share of bytes lost."""
    delay: float = 0.0
    """One way, s."""


@dataclass(frozen=True)
class Bounds:
    """What every path has to offer, from port to port of both ends."""

    loss: float = math.inf
    delay: float = math.inf
    """One way, s."""

    def admit(self, found: Iterable[Quality]) -> bool:
        """Tell whether a path over such tunnels offers it."""
        kept, delay = 1.0, 0.0
        for each in found:
            kept, delay = kept * (1.0 - each.loss), delay + each.delay
        return 1.0 - kept <= self.loss and delay <= self.delay


ANY: Final = Bounds()
"""Every path is good enough."""
_UNKNOWN: Final = Quality()


@dataclass(frozen=True)
class Wan:
    """Ports and tunnels, as measured or declared."""

    ports: Mapping[Stop, Limits]
    tunnels: Mapping[Hop, float]
    """Rate from one port to another, bit/s. Two ports without an entry do not reach each other."""
    bounds: Bounds = ANY
    """What every path has to offer."""
    qualities: Mapping[Hop, Quality] = field(default_factory=dict)
    """Of tunnels of which something is measured."""
    unmeasured: frozenset[Hop] = frozenset()
    """Tunnels whose rate no traffic has measured: it is declared, or what trains found before."""
    hops: frozenset[Pair] = field(init=False)
    """Pairs of branches with a tunnel."""
    _egress: Mapping[str, float] = field(init=False, repr=False)
    _ingress: Mapping[str, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        hops = frozenset((a.branch, b.branch) for a, b in self.tunnels)
        egress, ingress = dict[str, float](), dict[str, float]()
        for stop, each in self.ports.items():
            egress[stop.branch] = egress.get(stop.branch, 0.0) + each.egress
            ingress[stop.branch] = ingress.get(stop.branch, 0.0) + each.ingress
        for name, value in (("hops", hops), ("_egress", egress), ("_ingress", ingress)):
            object.__setattr__(self, name, value)

    def without(self, loads: Mapping[Hop, float]) -> Wan:
        """Give what is left beside other traffic: bit/s by tunnel."""
        egress, ingress = dict[Stop, float](), dict[Stop, float]()
        for (left, came), load in loads.items():
            egress[left] = egress.get(left, 0.0) + load
            ingress[came] = ingress.get(came, 0.0) + load
        ports = {
            stop: Limits(
                max(0.0, each.egress - egress.get(stop, 0.0)),
                max(0.0, each.ingress - ingress.get(stop, 0.0)),
                each.cost_per_gb,
            )
            for stop, each in self.ports.items()
        }
        tunnels = {each: max(0.0, r - loads.get(each, 0.0)) for each, r in self.tunnels.items()}
        return Wan(ports, tunnels, unmeasured=self.unmeasured)

    def within(self, bounds: Bounds, qualities: Mapping[Hop, Quality]) -> Wan:
        """Give ports and tunnels of which only paths are used that offer something.

        A tunnel that does not offer it by itself has the rate 0, as one that has failed.
        """
        if bounds == ANY:
            return self
        tunnels = {
            each: rate if bounds.admit([qualities.get(each, _UNKNOWN)]) else 0.0
            for each, rate in self.tunnels.items()
        }
        return Wan(self.ports, tunnels, bounds, qualities, self.unmeasured)

    def quality(self, tunnel: Hop) -> Quality:
        """Give what is measured of a tunnel."""
        return self.qualities.get(tunnel, _UNKNOWN)

    def admits(self, way: Iterable[Hop]) -> bool:
        """Tell whether a path offers what it has to."""
        return self.bounds == ANY or self.bounds.admit(map(self.quality, way))

    def alone(self, pair: Pair) -> float:
        """Most that a pair could send if it were the only one, by its own ports alone, bit/s."""
        source, target = pair
        return min(self._egress.get(source, 0.0), self._ingress.get(target, 0.0))
