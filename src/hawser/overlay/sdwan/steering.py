"""Service functions that a branch's traffic passes."""

from __future__ import annotations

from hawser.overlay.config.gateway import Carried
from hawser.overlay.config.steering import Steering
from hawser.overlay.sdwan.fabric import Fabric
from hawser.spec.overlay import TrafficType

_CARRIED: tuple[Carried, ...] = (TrafficType.I, TrafficType.II)


def steering(fabric: Fabric, name: str) -> Steering | None:
    """Give the chains of a branch that has their functions; None where it has none."""
    branch = fabric.branches[name]
    chains = {
        traffic: tuple(branch.functions[each] for each in policy.chain)
        for traffic in _CARRIED
        if (policy := fabric.policy.get(traffic))
        and policy.chain
        and branch.functions.keys() >= set(policy.chain)
    }
    return Steering(lan=branch.lan, chains=chains) if chains else None
