"""What is done while functions are not running: forwarders and rules do without these."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hawser.overlay.config.function import Hop, SffConfig
from hawser.overlay.lab.plan import NetworkPlan, SffDaemon
from hawser.spec.chain import proxy_name


def configurations(plan: NetworkPlan, down: Collection[str]) -> Iterator[tuple[str, SffConfig]]:
    """Give each forwarder's name and its configuration while these instances do not run.

    Flows of an instance that is down go to the others of its function. Where there is none, a
    chain that fails closed has no entry for that place: packets are dropped there, counted as
    `no_hop`. Of one that fails open no packet is put on its path: all go the plain way.
    """
    down = _down(plan, down)
    opened = set(_opened(plan, down))
    for daemon in plan.daemons:
        if isinstance(daemon, SffDaemon):
            hops = (_hop(hop, down) for hop in daemon.config.hops)
            update = {
                "hops": tuple(hop for hop in hops if hop is not None),
                "rules": tuple(rule for rule in daemon.config.rules if rule.spi not in opened),
            }
            yield daemon.name, daemon.config.model_copy(update=update)


def passed_by(plan: NetworkPlan, down: Collection[str]) -> frozenset[int]:
    """Give the routing tables that nothing is to be led to while these instances do not run.

    They are those of chains that are led by `srv6` or `routes`, and fail open: with their rules
    gone, all packets go the plain way.
    """
    opened = set(_opened(plan, _down(plan, down)))
    courses = (course for chain in plan.chains for course in chain.courses)
    return frozenset(table for each in courses if each.number in opened for table in each.tables)


def _down(plan: NetworkPlan, down: Collection[str]) -> set[str]:
    """Give the instances that nothing can pass: a tunnel has two ends, a proxy its function."""
    peers = (end.peer for end in plan.tunnels if end.node in down)
    every = (each for instances in plan.instances.values() for each in instances)
    return {*down, *peers, *(each for each in every if proxy_name(each) in down)}


def _opened(plan: NetworkPlan, down: Collection[str]) -> Iterator[int]:
    gone = {name for name, every in plan.instances.items() if set(every) <= set(down)}
    for chain in plan.chains:
        if chain.fail == "open":
            yield from (each.number for each in chain.courses if gone & set(each.functions))


def _hop(hop: Hop, down: Collection[str]) -> Hop | None:
    if not hop.to:
        return hop
    to = tuple(target for target in hop.to if target.port not in down)
    return hop.model_copy(update={"to": to}) if to else None
