"""Labs of the worked example with OpenFlow switches.

No gateway daemon runs: a TCP connection from a WAN address of gateway 1 to one of gateway 2, port
0x2004, is the agent's subflow of that pair.
"""

from __future__ import annotations

from driver_plans import branches, gateway_daemon

from hawser.overlay.openflow import switched
from hawser.overlay.plan import DaemonPlan, NetworkPlan
from worked_example import PATHS, Hop, entries, ports


def plan(
    count: int = 5, paths: dict[int, tuple[Hop, ...]] = PATHS, *, shaped: bool = False
) -> NetworkPlan:
    """So many branches with a switch each, and a controller; without `shaped` at full speed."""
    bare = branches(count)
    daemons = [_gateway(number, paths) for number in range(1, count + 1)]
    whole = switched(bare.model_copy(update={"daemons": tuple(daemons)}))
    update: dict[str, object] = {
        "daemons": tuple(each for each in whole.daemons if each.role == "openflow")
    }
    if not shaped:
        update["shapers"] = ()
    return whole.model_copy(update=update)


def bpf(count: int, paths: dict[int, tuple[Hop, ...]]) -> NetworkPlan:
    """The same branches with the other switch: a gateway daemon each, without peers."""
    daemons = [_gateway(number, paths, "bpf") for number in range(1, count + 1)]
    return branches(count).model_copy(update={"daemons": tuple(daemons), "shapers": ()})


def _gateway(number: int, paths: dict[int, tuple[Hop, ...]], kind: str = "openflow") -> DaemonPlan:
    daemon = gateway_daemon(f"gw{number}", f"gw{number}")
    switch = {"kind": kind, "ports": ports(number), "entries": entries(number, paths)}
    return daemon.model_copy(update={"config": {**daemon.config, "switch": switch}})
