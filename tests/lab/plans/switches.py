"""Labs of the worked example with OpenFlow switches.

   gw1                                            internet
  +---------------------------------------+      +--------------------+
  | mpa_0 198.18.1.2  -- ofs_0 [   ]      |      |                    |
  |                            [ovs] -- a |------| gw1-a 198.18.1.1   |     gw2 to gw5 alike,
  | mpa_1 198.18.1.6  -- ofs_1 [   ] -- b |------| gw1-b 198.18.1.5   |     198.18.n.x
  +---------------------------------------+      +--------------------+

                                        ssc: controller of all switches, over a Unix socket each

Each port of a switch passes `out_N -- wan_N` before TC redirects it to a or b. No gateway daemon
runs: a TCP connection from a WAN address of gateway 1 to one of gateway 2, port 0x2004, is the
agent's subflow of that pair.
"""

from __future__ import annotations

from hawser.overlay.config.gateway import Switch
from hawser.overlay.config.openflow import ControllerConfig
from hawser.overlay.config.shaping import class_id
from hawser.overlay.lab.openflow import switched
from hawser.overlay.lab.plan import ClassPlan, GatewayDaemon, NetworkPlan, ShaperPlan
from hawser.spec.units import Rate, Size
from lab.plans.small import FRAME, MBIT, branches, gateway_daemon
from worked_example import PATHS, Hop, entries, ports

SHAPER = "port:gw1.a:forward"
"""The shaper of `prioritised`; its classes are this, a colon, and I, II or III."""
PRIORITY_RATE = 10 * MBIT
PRIORITY_QUEUE = 30
"""Full frames that wait in a class."""


def plan(
    count: int = 5, paths: dict[int, tuple[Hop, ...]] = PATHS, *, shaped: bool = False
) -> NetworkPlan:
    """`count` branches with a switch each, and a controller; without `shaped` at full speed."""
    unswitched = branches(count)
    daemons = [_gateway(number, paths) for number in range(1, count + 1)]
    whole = switched(unswitched.model_copy(update={"daemons": tuple(daemons)}))
    update: dict[str, object] = {
        "daemons": tuple(each for each in whole.daemons if each.role == "openflow")
    }
    if not shaped:
        update["shapers"] = ()
    return whole.model_copy(update=update)


def prioritised(rate: float = PRIORITY_RATE) -> NetworkPlan:
    """Two branches, and three classes at gw1.a. Path 3 (a > b) is Type I, path 1 (a > a) Type II.

    Entries have the class of their path.
    """
    made = plan(2, {1: (("1a", "2a"),), 3: (("1a", "2b"),)})
    queue = Size(PRIORITY_QUEUE * FRAME)
    shaper = ShaperPlan(
        node="gw1",
        interface="a",
        name=SHAPER,
        rate=Rate(rate),
        classes=(
            ClassPlan(name=f"{SHAPER}:I", marked=True, priority=0, queue=queue),
            ClassPlan(name=f"{SHAPER}:II", marked=True, priority=1, queue=queue),
            ClassPlan(name=f"{SHAPER}:III", priority=2, queue=queue),
        ),
        sender_marks=True,
    )
    (ssc,) = made.daemons
    changed = ssc.config.model_dump(mode="json")
    for switch in changed["switches"]:
        for entry in switch["entries"]:
            if entry["output"] != "agent":
                entry["output"]["class"] = class_id(0 if entry["name"].startswith("m3") else 1)
    config = ControllerConfig.model_validate(changed)
    update = {"daemons": (ssc.model_copy(update={"config": config}),), "shapers": (shaper,)}
    return made.model_copy(update=update)


def bpf(count: int, paths: dict[int, tuple[Hop, ...]]) -> NetworkPlan:
    """The same branches with the other switch: a gateway daemon each, without peers."""
    daemons = [_gateway(number, paths, "bpf") for number in range(1, count + 1)]
    return branches(count).model_copy(update={"daemons": tuple(daemons), "shapers": ()})


def _gateway(
    number: int, paths: dict[int, tuple[Hop, ...]], kind: str = "openflow"
) -> GatewayDaemon:
    daemon = gateway_daemon(f"gw{number}", f"gw{number}")
    switch = {"kind": kind, "ports": ports(number), "entries": entries(number, paths)}
    update = {"switch": Switch.model_validate(switch)}
    return daemon.model_copy(update={"config": daemon.config.model_copy(update=update)})
