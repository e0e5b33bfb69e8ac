"""Five branches whose subflows go through each other: the network of Lee, Chan and Chen 2023.

   h1 10.1.0.2 - gw1 ==a,b== internet ==a,b== gw2 - 10.2.0.2 h2      a, b: 40 Mbit/s
                             ||a,b   |x0..x15
                       gw3, gw4, gw5 backbone       a bottleneck of 100 Mbit/s on the first WAN hop
                        |    |    |                 of each of the 16 member paths between b1 and b2
                       h3   h4   h5

The workflow is workflows/mms-network.yaml: four path groups, each of a direct path and one through
each of gw3, gw4 and gw5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.daemon import SupervisedProcess
from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan, network
from hawser.spec import load
from hawser.spec.workflow import Change
from lab import ROOT
from lab.traffic.counted import deliver
from lab.traffic.live import LiveTransfer, live_transfer
from lab.waiting import until

ACCESS = 40.0
"""Mbit/s of each WAN port."""
GONE = {"transit branch": (("gw3", "a"), ("gw3", "b")), "own port": (("gw1", "a"),)}
"""WAN ports that fail in mid-transfer: one of four member paths of each group, or half of them."""
QUIC = (
    "overlay.transport=quic",
    "overlay.encryption=tls13",
    "overlay.branches.b1.id=20",
    "overlay.branches.b2.id=959",
    "overlay.branches.b3.id=700",
    "overlay.path_groups={one: {id: 40, paths: [b1.a>b2.a, b1.b>b3.b>b3.a>b2.b]}}",
)
"""A direct path and one through branch 3, with branch numbers that only fit wide labels."""
FIVE_BITS = (
    *QUIC[:2],
    "overlay.label_bits=5",
    "overlay.branches.b1.id=959",
    "overlay.branches.b2.id=1919",
    "overlay.branches.b3.id=960",
    "overlay.path_groups={one: {id: 31, paths: [b1.a>b2.a, b1.b>b3.b>b3.a>b2.b]}}",
)
"""The same with numbers that only fit labels with 5 low bits."""
IPV6 = ("overlay.family=6", "topology.internet.bottlenecks={}")
"""Tunnels over IPv6, which bottlenecks of the internet cannot carry."""

_AT_ONCE = 4_000_000


def plan(*overrides: str) -> NetworkPlan:
    file = str(ROOT / "workflows" / "mms-network.yaml")
    workflow = load(file, lambda name: Path(name).read_bytes(), overrides)
    return network(workflow.variants[0].scenario)


def change(lab: LocalLab, gone: str, *, up: bool) -> None:
    """Take ports of `GONE` down, or up again."""
    for gateway, port in GONE[gone]:
        lab.apply(f"port:{gateway}.{port}", Change(up=up))


def send(lab: LocalLab, size: int = _AT_ONCE) -> None:
    """Send bytes from branch 1 to 2 over one TCP connection; they must arrive unchanged."""
    deliver(lab.nodes["h1"], lab.nodes["h2"], str(lab.plan.addresses["h2"]), size)


def send_until(lab: LocalLab, condition: Callable[[], object], what: str) -> None:
    """Send from branch 1 to 2, 4 MB at a time, until a condition holds."""

    def again() -> object:
        send(lab)
        return condition()

    until(again, what)


@contextmanager
def sending(lab: LocalLab) -> Iterator[LiveTransfer]:
    """Send from branch 1 to 2 by one TCP connection meanwhile; a failure tells where it went."""
    target = str(lab.plan.addresses["h2"])
    with live_transfer(lab.nodes["h1"], lab.nodes["h2"], target) as going:
        try:
            yield going
        except AssertionError as error:
            error.add_note(f"{going.received} bytes came; by {_ways(lab)}")
            raise


def _ways(lab: LocalLab) -> dict[str, object]:
    """Packets by gateway, direction and place, or why they are not known."""
    found: dict[str, object] = {}
    for gateway in ("gw1", "gw2", "gw3", "gw4", "gw5"):
        try:
            found[gateway] = _by_way(entries(lab, gateway))
        except ControlError as error:
            found[gateway] = str(error)
    return found


def counters(lab: LocalLab, gateway: str) -> dict[str, Any]:
    with DaemonClient(lab.daemons[gateway].control) as client:
        found: dict[str, Any] = client.counters()
        return found


def peer(lab: LocalLab, gateway: str, branch: str) -> Any:  # noqa: ANN401 (as clients see it)
    """A gateway's status of another branch."""
    with DaemonClient(lab.daemons[gateway].control) as client:
        status: Any = client.status()
    return next(each for each in status.peers if each.branch == branch)


def reconnects(lab: LocalLab, gateway: str, branch: str) -> int:
    return sum(group.reconnects for group in peer(lab, gateway, branch).groups)


def ends(lab: LocalLab, gateway: str, branch: str) -> dict[str, int]:
    """How many connections with a branch ended, by path group and cause."""
    found = next(each for each in counters(lab, gateway)["peers"] if each["branch"] == branch)
    return {
        f"group {group['id']} {cause}": number
        for group in found["groups"]
        for cause, number in group["ends"].items()
        if number
    }


def paths_up(lab: LocalLab) -> int:
    """Paths from branch 1 to 2 that carry."""
    return sum(group.subflows for group in peer(lab, "gw1", "b2").groups)


def entries(lab: LocalLab, gateway: str) -> dict[str, int]:
    """Packets of every flow entry of a gateway's switch.

    Raises:
        ControlError: its counters cannot be read.
    """
    openflow = "ssc" in lab.daemons
    found = counters(lab, "ssc" if openflow else gateway)
    switches = found["switches"] if openflow else [{"name": gateway, **found["switch"]}]
    listed = next(each for each in switches if each["name"] == gateway)["entries"]
    return {entry["name"]: entry["packets"] for entry in listed}


def table(lab: LocalLab, gateway: str) -> dict[str, int] | None:
    """Packets of every flow entry of a gateway's switch; none while its counters cannot be read."""
    try:
        return entries(lab, gateway)
    except ControlError:
        return None


def way(lab: LocalLab, gateway: str) -> dict[str, int]:
    """Packets from branch 1 to 2 and back that a gateway forwarded, by direction and place."""
    return _by_way(table(lab, gateway) or {})


def _by_way(found: dict[str, int]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for name, packets in found.items():
        pair, _, _, direction, *place = name.split()
        if pair == "b1>b2":
            where = " ".join((direction, *place))
            counted[where] = counted.get(where, 0) + packets
    return counted


def transit(lab: LocalLab, gateway: str) -> int | None:
    """Packets from branch 1 to 2 and back that a gateway passed on; none if it cannot say."""
    if (found := table(lab, gateway)) is None:
        return None
    return sum(packets for place, packets in _by_way(found).items() if "transit" in place)


def port_packets(lab: LocalLab, direction: str, *ports: tuple[str, str]) -> float:
    """Packets that WAN ports have sent (`tx`) or received (`rx`)."""
    return sum(lab.nodes[node].counters()[port][f"{direction}_packets"] for node, port in ports)


def killable(lab: LocalLab, name: str) -> SupervisedProcess:
    running = (*lab.daemons.values(), *lab.switches)
    found = next(each for each in running if each.name == name)
    assert isinstance(found, SupervisedProcess)
    return found
