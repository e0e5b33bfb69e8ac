"""What forwarders do while functions are not running: their configurations, without these."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from hawser.overlay.plan import NetworkPlan


def configurations(
    plan: NetworkPlan, down: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each forwarder's name and its configuration while these instances do not run.

    Flows of an instance that is down go to the others of its function. Where there is none, a
    chain that fails closed has no entry for that place: packets are dropped there, counted as
    `no_hop`. Of one that fails open no packet is put on its path: all go the plain way.
    """
    down = {*down, *(end.peer for end in plan.tunnels if end.node in down)}
    opened = set(_opened(plan, down))
    for daemon in plan.daemons:
        if daemon.role == "sff":
            config: Any = daemon.config
            hops = (_hop(hop, down) for hop in config["hops"])
            yield (
                daemon.name,
                {
                    **config,
                    "hops": [hop for hop in hops if hop is not None],
                    "rules": [rule for rule in config["rules"] if rule["spi"] not in opened],
                },
            )


def _opened(plan: NetworkPlan, down: Collection[str]) -> Iterator[int]:
    gone = {name for name, every in plan.instances.items() if set(every) <= set(down)}
    for chain in plan.chains:
        if chain.fail == "open":
            yield from (each.number for each in chain.courses if gone & set(each.functions))


def _hop(hop: dict[str, Any], down: Collection[str]) -> dict[str, Any] | None:
    if "to" not in hop:
        return hop
    to = [target for target in hop["to"] if target["port"] not in down]
    return {**hop, "to": to} if to else None
