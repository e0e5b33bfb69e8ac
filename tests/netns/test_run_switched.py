"""Five branches whose subflows go through each other, as the workflows of document 004 have them.

h1 - gw1 ==a,b== internet ==a,b== gw2 - h2         and gw3, gw4, gw5 in between
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from driver_traffic import ping, tcp
from transfer import OUTAGE, RECEIVER, sender, standstill
from waiting import until

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.daemon import SupervisedProcess
from hawser.driver.local import LocalLab
from hawser.overlay import NetworkPlan, network
from hawser.spec import load
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
ROOT = Path(__file__).parents[2]


def plan(*overrides: str) -> NetworkPlan:
    file = str(ROOT / "workflows" / "mms-network.yaml")
    workflow = load(file, lambda name: Path(name).read_bytes(), overrides)
    return network(workflow.variants[0].scenario)


def counters(lab: LocalLab, gateway: str) -> dict[str, Any]:
    with DaemonClient(lab.daemons[gateway].control) as client:
        found: dict[str, Any] = client.counters()
        return found


def entries(lab: LocalLab, gateway: str) -> dict[str, int]:
    """Packets of every flow entry of a gateway that had some."""
    listed = counters(lab, gateway)["switch"]["entries"]
    return {entry["name"]: entry["packets"] for entry in listed if entry["packets"]}


@pytest.fixture
def lab(deploy: Deploy) -> LocalLab:
    return deploy(plan())


def goodput(lab: LocalLab, seconds: int = 4) -> float:
    """TCP from branch 1 to branch 2, Mbit/s."""
    target = str(lab.plan.addresses["h2"])
    found = tcp(lab.nodes["h1"], lab.nodes["h2"], target, seconds)
    return float(found["bits_per_second"]) / 1e6


@pytest.mark.measures
def test_subflows_go_as_the_table_says(lab: LocalLab) -> None:
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3
    assert goodput(lab) > 45, "more than one access carries"
    for gateway in ("gw3", "gw4", "gw5"):
        used = [name for name in entries(lab, gateway) if name.startswith("b1>b2 ")]
        assert any("forward transit" in name for name in used)
        assert any("return transit" in name for name in used)
        assert not any("source" in name or "destination" in name for name in used)
    for gateway in ("gw1", "gw2", "gw3"):
        assert counters(lab, gateway)["switch"]["drops"]["malformed"] == 0
    with DaemonClient(lab.daemons["gw1"].control) as client:
        status: Any = client.status()
    towards = {peer.branch: [group.subflows for group in peer.groups] for peer in status.peers}
    assert towards["b2"] == [4] * 8


def test_fewer_hops_go_first(lab: LocalLab) -> None:
    goodput(lab)
    counted = lab.nodes["gw1"].counters()
    assert counted["port:gw1.a:forward:II-1"]["packets"] > 1000
    assert counted["port:gw1.a:forward:II-2"]["packets"] > 1000
    assert counted["port:gw1.a:forward:I"]["packets"] == 0


@pytest.mark.measures
def test_a_transit_branch_that_dies_is_gone_round(lab: LocalLab) -> None:
    for port in ("port:gw3.a", "port:gw3.b"):
        lab.apply(port, Change(up=False))
    assert goodput(lab) > 30
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3


GONE = {"transit branch": ("port:gw3.a", "port:gw3.b"), "own port": ("port:gw1.a",)}
"""What may go in mid-transfer: one of the four member paths of each group, half of them."""


@pytest.mark.measures
@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_a_transfer_survives_what_goes_and_comes_back(
    deploy: Deploy, switch: str, gone: str
) -> None:
    lab = deploy(plan(f"overlay.switch={switch}"))
    with transfer(lab):
        for at, up in ((1.5, False), (1.5, True)):
            time.sleep(at)
            for port in GONE[gone]:
                lab.apply(port, Change(up=up))


@contextmanager
def transfer(lab: LocalLab, seconds: float = 4) -> Iterator[None]:
    """Send from branch 1 to 2 over one TCP connection; it never stands still for long."""
    receiver = lab.nodes["h2"].start(RECEIVER)
    try:
        until(lambda: ":7" in lab.nodes["h2"].run(["ss", "-Hltn"], timeout=60).stdout)
        done: list[str] = []
        command = sender(str(lab.plan.addresses["h2"]), seconds)
        sending = Thread(
            target=lambda: done.append(lab.nodes["h1"].run(command, timeout=60).stdout)
        )
        sending.start()
        yield
        sending.join()
        receiver.wait()
        assert standstill(done[0], receiver.stop().stdout) <= OUTAGE
    finally:
        receiver.stop()


@pytest.mark.measures
@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_a_transfer_survives_a_transit_gateway_that_is_killed(deploy: Deploy, switch: str) -> None:
    """The programs of `bpf` go on without their daemon; Open vSwitch forwards nothing."""
    lab = deploy(plan(f"overlay.switch={switch}"))
    victim = killable(lab, "gw3" if switch == "bpf" else "gw3-ofs")
    before = victim.pid
    with transfer(lab, 5):
        time.sleep(1.5)
        victim.kill()
        time.sleep(0.5)  # what was on its way has arrived
        left = sent(lab, "gw3")
        time.sleep(1)
        carried = sent(lab, "gw3") - left
        victim.resume()
    assert carried > 200 if switch == "bpf" else carried < 10
    assert victim.pid != before
    assert reconnects(lab, "gw1", "b2") == 0
    until(lambda: transit(lab, "gw3") is not None)
    again = transit(lab, "gw3") or 0
    goodput(lab)
    until(lambda: (transit(lab, "gw3") or 0) > again + 200)


def killable(lab: LocalLab, name: str) -> SupervisedProcess:
    running = (*lab.daemons.values(), *lab.switches)
    found = next(each for each in running if each.name == name)
    assert isinstance(found, SupervisedProcess)
    return found


def sent(lab: LocalLab, gateway: str) -> float:
    """Packets that left by the WAN ports of a gateway."""
    counted = lab.nodes[gateway].counters()
    return sum(counted[port]["tx_packets"] for port in "ab")


def transit(lab: LocalLab, gateway: str) -> int | None:
    """Packets from branch 1 to 2 that a gateway has passed on; none while nobody can say."""
    openflow = "ssc" in lab.daemons
    try:
        found = counters(lab, "ssc" if openflow else gateway)
    except ControlError:
        return None
    tables = [each for each in found["switches"] if each["name"] == gateway] if openflow else None
    listed = tables[0]["entries"] if tables else found["switch"]["entries"]
    named: dict[str, int] = {each["name"]: each["packets"] for each in listed}
    return sum(named[name] for name in named if name.startswith("b1>b2 ") and "transit" in name)


def reconnects(lab: LocalLab, gateway: str, branch: str) -> int:
    with DaemonClient(lab.daemons[gateway].control) as client:
        status: Any = client.status()
    return sum(g.reconnects for peer in status.peers if peer.branch == branch for g in peer.groups)


QUIC = (
    "overlay.transport=quic",
    "overlay.encryption=tls13",
    "overlay.branches.b1.id=20",
    "overlay.branches.b2.id=959",
    "overlay.branches.b3.id=700",
    "overlay.path_groups={one: {id: 40, paths: [b1.a>b2.a, b1.b>b3.b>b3.a>b2.b]}}",
)
"""A direct path and one through branch 3, with numbers that only wide labels hold."""


@pytest.mark.measures
@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_quic_goes_over_transit_gateways(deploy: Deploy, switch: str) -> None:
    """One connection over both paths at once; over the direct one alone while the other is cut."""
    lab = deploy(plan(f"overlay.switch={switch}", *QUIC))
    until(lambda: paths_up(lab) == 2)
    assert goodput(lab, 3) > 45, "more than the 40 Mbit/s of one access"
    passed = way(lab, switch, "gw3")
    assert passed["forward transit"] > 3000
    assert passed["return transit"] > 300
    assert not any("source" in name or "destination" in name for name, n in passed.items() if n)
    with transfer(lab, 4):
        for at, up in ((1.5, False), (1.5, True)):
            time.sleep(at)
            for port in GONE["transit branch"]:
                lab.apply(port, Change(up=up))
    again = way(lab, switch, "gw3")["forward transit"]
    goodput(lab, 2)
    assert way(lab, switch, "gw3")["forward transit"] > again + 1000, "the path is used again"
    assert reconnects(lab, "gw1", "b2") == 0


def paths_up(lab: LocalLab) -> int:
    """Paths from branch 1 to 2 that carry."""
    with DaemonClient(lab.daemons["gw1"].control) as client:
        status: Any = client.status()
    groups = next(peer.groups for peer in status.peers if peer.branch == "b2")
    return sum(group.subflows for group in groups)


def way(lab: LocalLab, switch: str, gateway: str) -> dict[str, int]:
    """Packets from branch 1 to 2 and back that a gateway led on, by direction and place."""
    if switch == "openflow":
        time.sleep(1.2)  # the controller reads its switches once a second
        tables = counters(lab, "ssc")["switches"]
        listed = next(each for each in tables if each["name"] == gateway)["entries"]
    else:
        listed = counters(lab, gateway)["switch"]["entries"]
    counted: dict[str, int] = {}
    for each in listed:
        pair, _, _, direction, *place = each["name"].split()
        if pair == "b1>b2":
            name = " ".join((direction, *place))
            counted[name] = counted.get(name, 0) + each["packets"]
    return counted


def test_ip_in_ip_has_a_tunnel_a_group(deploy: Deploy) -> None:
    lab = deploy(plan("overlay.transport=ipip", 'overlay.path_groups="${tunnels}"'))
    target = str(lab.plan.addresses["h2"])
    done = lab.nodes["h2"].start(["iperf3", "-s", "-1"])
    try:
        command = ["iperf3", "-c", target, "-P", "8", "-t", "3"]
        lab.nodes["h1"].run(command, timeout=60)
    finally:
        done.stop()
    groups = next(p["groups"] for p in counters(lab, "gw1")["peers"] if p["branch"] == "b2")
    assert [group["id"] for group in groups] == [0, 1, 2, 3]
    assert all(group["sent"]["packets"] > 100 for group in groups)
