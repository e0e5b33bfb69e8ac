"""What runs and probes measure where the machine keeps up, and how long transfers stand still.

h1 --x, 20 Mbit/s-- h2                              a run (lab/run/cable.py)
h1 --near-- r --far, 10 Mbit/s-- h2                 probes (lab/run/probes.py)
h1 - gw1 ==a,b== internet ==a,b== gw2 - h2          failures (lab/plans/switched.py)
                 ||a,b
           gw3, gw4, gw5
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan
from lab.plans.switched import (
    ACCESS,
    GONE,
    QUIC,
    change,
    killable,
    paths_up,
    plan,
    port_packets,
    sending,
)
from lab.run import cable, probes
from lab.run.cli import REPOSITORY, hawser
from lab.run.probes import HTTP_RATE, RATE, iperf3, measured, ping
from lab.traffic.nodes import tcp
from lab.traffic.transfer import OUTAGE
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
HEADERS = 42
"""Bytes of Ethernet, IP and UDP headers."""


def test_a_run_over_a_cable_has_the_rate_of_the_cable(tmp_path: Path) -> None:
    """17 to 20 Mbit/s of 20, and 3 to 5 of 5: the workflow's own assertions."""
    file = cable.write(tmp_path, least=(17, 3))
    done = hawser("run", file, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert json.loads(done.stdout)["passed"]


def test_quickstart_has_the_rates_of_its_paths(tmp_path: Path) -> None:
    """The direct path has 4 Mbit/s, the best one 16; what queues held comes on top."""
    quickstart = REPOSITORY / "workflows" / "quickstart.yaml"
    once = ("--repeat", 1, "--duration", 1, "--set", "assert=[]", "--json")
    done = hawser("run", quickstart, *once, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    goodput = {
        row["variant"]["transport"]: row["median"]
        for row in json.loads(done.stdout)["rows"]
        if row["metric"] == "goodput"
    }
    assert 2 < goodput["ipip-direct"] < 5
    assert 8 < goodput["ipip-best"] < 16
    assert goodput["ipomp"] > goodput["ipip-direct"]


def test_ping_answers_at_once(deploy: Deploy, tmp_path: Path) -> None:
    assert measured(deploy(probes.plan()), tmp_path, ping())["rtt_p99"] < 50


def test_probes_of_tcp_have_the_rate_of_the_link(deploy: Deploy, tmp_path: Path) -> None:
    """Up to a tenth more: what waited for a retransmission when the warm-up ended."""
    lab = deploy(probes.plan())
    kinds = [{"reverse": reverse, "streams": 2, "congestion": "reno"} for reverse in (False, True)]
    for kind in (*kinds, {"protocol": "mptcp"}):
        found = measured(lab, tmp_path, iperf3(**kind))
        assert 0.4 * RATE < found["goodput"] < 1.1 * RATE, kind
    found = measured(lab, tmp_path, iperf3(duration="1 s", warmup="0 s"))
    assert found["goodput"] > 0.5 * RATE


def test_udp_loses_just_what_does_not_fit(deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(probes.plan())
    spec = iperf3(protocol="udp", rate="20 Mbit/s", length="1000 B")
    found = measured(lab, tmp_path, spec)
    fits = RATE * 1000 / (1000 + HEADERS)
    assert found["goodput"] == pytest.approx(fits, rel=0.05)
    assert found["loss"] == pytest.approx(100 * (1 - fits / 20), abs=4)


def test_udp_within_the_rate_loses_nothing(deploy: Deploy, tmp_path: Path) -> None:
    spec = iperf3(protocol="udp", rate="5 Mbit/s", length="500 B")
    found = measured(deploy(probes.plan()), tmp_path, spec)
    assert found["goodput"] == pytest.approx(5, rel=0.05)
    assert found["loss"] < 1


def test_large_objects_take_the_whole_link(deploy: Deploy, tmp_path: Path) -> None:
    """100 kB over 20 Mbit/s: 24 a second, and each of 4 waits for the others."""
    lab = deploy(probes.limited_pair())
    four = {"size": "100 kB", "connections": 4, "duration": "2 s", "warmup": "1 s"}
    found = probes.http(lab, tmp_path, **four)
    a_second = 0.96 * HTTP_RATE * 1e6 / 8 / 100e3
    assert found["requests"] == pytest.approx(a_second, rel=0.15)
    assert found["http_latency_p50"] == pytest.approx(4 / a_second * 1000, rel=0.35)


def test_connections_of_http_are_many_a_second(deploy: Deploy, tmp_path: Path) -> None:
    """Where each request has its own."""
    lab = deploy(probes.pair())
    found = probes.http(lab, tmp_path, keepalive=False, connections=4)
    assert found["connections"] > 50
    assert found["connections"] == pytest.approx(found["requests"], rel=0.05)


def goodput(lab: LocalLab, seconds: int = 4) -> float:
    """TCP from branch 1 to branch 2, Mbit/s."""
    target = str(lab.plan.addresses["h2"])
    found = tcp(lab.nodes["h1"], lab.nodes["h2"], target, seconds)
    return float(found["bits_per_second"]) / 1e6


def test_tcp_has_more_than_one_access(deploy: Deploy) -> None:
    assert goodput(deploy(plan())) > ACCESS + 5


def test_tcp_without_a_transit_branch_has_most_of_an_access(deploy: Deploy) -> None:
    lab = deploy(plan())
    change(lab, "transit branch", up=False)
    assert goodput(lab) > 0.75 * ACCESS


@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_quic_has_more_than_one_access(deploy: Deploy, switch: str) -> None:
    """And does not stall for long when one of its two paths fails and returns."""
    lab = deploy(plan(f"overlay.switch={switch}", *QUIC))
    until(lambda: paths_up(lab) == 2)
    assert goodput(lab, 3) > ACCESS + 5
    goes_and_comes_back(lab, "transit branch")


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_a_transfer_never_stands_still_for_long_when_paths_go(
    deploy: Deploy, switch: str, gone: str
) -> None:
    goes_and_comes_back(deploy(plan(f"overlay.switch={switch}")), gone)


def goes_and_comes_back(lab: LocalLab, gone: str) -> None:
    """Take ports down for 1.5 s in the midst of a transfer of 4 s."""
    with sending(lab) as going:
        for up in (False, True):
            time.sleep(1.5)
            change(lab, gone, up=up)
        time.sleep(1)
    assert going.standstill <= OUTAGE


@pytest.mark.parametrize("switch", ["bpf", "openflow"])
def test_a_transfer_never_stands_still_for_long_when_a_gateway_is_killed(
    deploy: Deploy, switch: str
) -> None:
    """In 1 s the programs of `bpf` pass over 200 packets on; Open vSwitch, which is gone, none."""
    lab = deploy(plan(f"overlay.switch={switch}"))
    victim = killable(lab, "gw3" if switch == "bpf" else "gw3-ofs")
    ports = ("gw3", "a"), ("gw3", "b")
    with sending(lab) as going:
        time.sleep(1.5)
        victim.kill()
        time.sleep(0.5)  # packets in flight have arrived
        left = port_packets(lab, "tx", *ports)
        time.sleep(1)
        carried = port_packets(lab, "tx", *ports) - left
        victim.resume()
        time.sleep(2)
    assert carried > 200 if switch == "bpf" else carried < 10
    assert going.standstill <= OUTAGE
