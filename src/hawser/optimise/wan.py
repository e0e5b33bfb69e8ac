"""What a path program is given: ports, the tunnels between them, and the traffic demanded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

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
class Wan:
    """Ports and tunnels, as measured or declared."""

    ports: Mapping[Stop, Limits]
    tunnels: Mapping[Hop, float]
    """Rate from one port to another, bit/s. Two ports without an entry do not reach each other."""
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
        return Wan(ports, tunnels)

    def alone(self, pair: Pair) -> float:
        """Most that a pair could send if it were the only one, by its own ports alone, bit/s."""
        source, target = pair
        return min(self._egress.get(source, 0.0), self._ingress.get(target, 0.0))
