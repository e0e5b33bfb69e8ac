"""What five branches whose subflows go through each other carry, and how they survive failures.

   h1 - gw1 ==a,b== internet ==a,b== gw2 - h2       a, b: 40 Mbit/s
                    ||a,b                           every member path has a bottleneck of its own
              gw3, gw4, gw5

Drawn in lab/plans/switched.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan
from lab.plans import switched
from lab.plans.switched import (
    FIVE_BITS,
    GONE,
    IPV6,
    QUIC,
    change,
    counters,
    ends,
    paths_up,
    peer,
    plan,
    port_packets,
    reconnects,
    send_until,
    sending,
    transit,
    way,
)
from lab.traffic.nodes import ping, transfer
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
GW3 = (("gw3", "a"), ("gw3", "b"))
MB = 1_000_000
IN_FLIGHT = 10
"""Packets that may still arrive after a port was taken down; 4 MB are 3000 packets."""
SLOW = "vars.access=10 Mbit/s"
"""Ports that a connection fills also on a busy machine: one that is not full needs no second."""
SHORT_CUT = 10.0 / 3
"""Seconds a path may be cut without losing its connection, which ends after 10 s of silence: probes
are sent at intervals that double (RFC 9002 section 6.2.1), so one comes within twice this time."""


@pytest.fixture
def lab(deploy: Deploy) -> LocalLab:
    return deploy(plan())


def used(lab: LocalLab, gateway: str) -> list[str]:
    """Flow entries from branch 1 to 2 and back that a gateway's packets have matched."""
    entries = switched.table(lab, gateway) or {}
    return [name for name, packets in entries.items() if packets and name.startswith("b1>b2 ")]


@pytest.mark.parametrize("changed", [(), IPV6], ids=["ipv4", "ipv6"])
def test_subflows_go_as_the_table_says(deploy: Deploy, changed: tuple[str, ...]) -> None:
    lab = deploy(plan(*changed))
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3
    accesses = [(("gw1", "a"),), (("gw1", "b"),)]
    before = [port_packets(lab, "tx", *access) for access in accesses]
    send_until(
        lab,
        lambda: all(
            port_packets(lab, "tx", *access) > least + 1000
            for access, least in zip(accesses, before, strict=True)
        ),
        "more than one access carries",
    )
    for gateway in ("gw3", "gw4", "gw5"):
        names = used(lab, gateway)
        assert any("forward transit" in name for name in names)
        assert any("return transit" in name for name in names)
        assert not any("source" in name or "destination" in name for name in names)
    for gateway in ("gw1", "gw2", "gw3"):
        assert counters(lab, gateway)["switch"]["drops"]["malformed"] == 0
    assert [group.subflows for group in peer(lab, "gw1", "b2").groups] == [4] * 8


def test_fewer_hops_go_first(lab: LocalLab) -> None:
    def packets(level: str) -> float:
        return lab.nodes["gw1"].counters()[f"port:gw1.a:forward:{level}"]["packets"]

    send_until(
        lab,
        lambda: packets("II-1") > 1000 and packets("II-2") > 1000,
        "direct and transit subflows have classes of their own",
    )
    assert packets("I") == 0


def test_a_transit_branch_that_dies_is_gone_round(lab: LocalLab) -> None:
    change(lab, "transit branch", up=False)
    dead = port_packets(lab, "rx", *GW3)
    switched.send(lab, 8 * MB)
    assert port_packets(lab, "rx", *GW3) < dead + IN_FLIGHT
    until(lambda: ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3)


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_a_transfer_survives_what_goes_and_comes_back(
    deploy: Deploy, switch: str, gone: str
) -> None:
    lab = deploy(plan(f"overlay.switch={switch}", SLOW))
    with sending(lab) as going:
        until(
            lambda: port_packets(lab, "rx", *GONE[gone]) > 1000,
            "the paths that will fail carry traffic",
        )
        change(lab, gone, up=False)
        dead = port_packets(lab, "rx", *GONE[gone])
        going.carry(4 * MB)
        assert port_packets(lab, "rx", *GONE[gone]) < dead + IN_FLIGHT
        change(lab, gone, up=True)
        until(lambda: port_packets(lab, "rx", *GONE[gone]) > dead + 1000, "it is used again")
        going.carry(MB)
    assert reconnects(lab, "gw1", "b2") == 0, ends(lab, "gw1", "b2")


@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_a_transfer_survives_a_transit_gateway_that_is_killed(deploy: Deploy, switch: str) -> None:
    """The programs of `bpf` go on without their daemon; Open vSwitch forwards nothing."""
    lab = deploy(plan(f"overlay.switch={switch}"))
    victim = switched.killable(lab, "gw3" if switch == "bpf" else "gw3-ofs")
    before = victim.pid
    with sending(lab) as going:
        until(lambda: (transit(lab, "gw3") or 0) > 1000, "the gateway that will be killed forwards")
        victim.kill()
        until(lambda: not victim.running())
        time.sleep(0.5)  # the queues of its ports have drained
        left = port_packets(lab, "tx", *GW3)
        going.carry(4 * MB)
        if switch == "bpf":
            until(lambda: port_packets(lab, "tx", *GW3) > left + 200)
        else:
            assert port_packets(lab, "tx", *GW3) < left + IN_FLIGHT
        victim.resume()
        until(lambda: victim.pid != before and victim.running())
        going.carry(MB)
    assert reconnects(lab, "gw1", "b2") == 0, ends(lab, "gw1", "b2")
    seen: list[int] = []  # a restarted switch counts from 0, and is read once a second

    def passes_on() -> bool:
        if (packets := transit(lab, "gw3")) is not None:
            seen.append(packets)
        return bool(seen) and seen[-1] > min(seen) + 200

    send_until(lab, passes_on, "it passes packets on again")


@pytest.mark.parametrize(
    ("switch", "changed"),
    [("bpf", QUIC), ("openflow", QUIC), ("bpf", FIVE_BITS), ("bpf", (*QUIC, *IPV6))],
)
def test_quic_goes_over_transit_gateways(
    deploy: Deploy, switch: str, changed: tuple[str, ...]
) -> None:
    """One connection uses both paths, and only the direct one while the other is cut."""
    lab = deploy(plan(f"overlay.switch={switch}", *changed))
    until(lambda: paths_up(lab) == 2)

    def forward() -> int:
        return way(lab, "gw3")["forward transit"]

    send_until(
        lab,
        lambda: (
            forward() > 3000
            and way(lab, "gw3")["return transit"] > 300
            and port_packets(lab, "tx", ("gw1", "a")) > 3000
        ),
        "both paths are used, and both ways",
    )
    passed = way(lab, "gw3")
    assert not any("source" in name or "destination" in name for name, n in passed.items() if n)
    with sending(lab) as going:
        going.carry(4 * MB)
        cut = time.monotonic()
        change(lab, "transit branch", up=False)
        dead = port_packets(lab, "rx", *GW3)
        going.carry(4 * MB)
        assert port_packets(lab, "rx", *GW3) < dead + IN_FLIGHT
        change(lab, "transit branch", up=True)
        silent = time.monotonic() - cut
        going.carry(MB)
    again = forward()
    send_until(lab, lambda: forward() > again + 1000, "the path is used again")
    if silent < SHORT_CUT:
        assert reconnects(lab, "gw1", "b2") == 0, ends(lab, "gw1", "b2")


def test_ip_in_ip_has_a_tunnel_a_group(deploy: Deploy) -> None:
    lab = deploy(plan("overlay.transport=ipip", 'overlay.path_groups="${tunnels}"'))
    transfer(
        lab.nodes["h1"], lab.nodes["h2"], str(lab.plan.addresses["h2"]), "16M", "-P", "8"
    )  # connections in turn on the groups
    groups = next(p["groups"] for p in counters(lab, "gw1")["peers"] if p["branch"] == "b2")
    assert [group["id"] for group in groups] == [0, 1, 2, 3]
    assert all(group["sent"]["packets"] > 100 for group in groups)
