"""The WAN emulator between two hosts, and between two ports of the internet.

a --w-- wan --w-- b            c ---- internet ---- wan ---- d
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
from driver_traffic import burst, ping, tcp
from waiting import until

from hawser.control.client import DaemonClient
from hawser.control.model import WanPath
from hawser.driver.base import DriverError
from hawser.driver.capabilities import has
from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from hawser.overlay import network
from hawser.overlay.emulator import emulated
from hawser.overlay.plan import NetworkPlan
from hawser.spec import load
from hawser.spec.units import Duration, Ratio
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
WORKFLOW = """
hawser: 1
name: wan
title: Wan
topology:
  nodes: [a, b, c, d]
  links:
    w: {{ends: [a.e, b.e], {link}}}
  internet:
    ports: {{c.e: {{}}, d.e: {{}}}}
    paths: {{p: {{ends: [c.e, d.e], {path}}}}}
measurements: {{rtt: {{probe: ping, from: a, to: b}}}}
"""
TRACE = "4\n8\n12\n"
"""Three packets in 12 ms: 3 Mbit/s."""


def plan(link: str = "mtu: 1500", path: str = "reverse: {}", seed: int = 1) -> NetworkPlan:
    files = {"wan.yaml": WORKFLOW.format(link=link, path=path), "slow.trace": TRACE}
    workflow = load("wan.yaml", files.__getitem__)
    unseeded = network(workflow.variants[0].scenario)
    return emulated(unseeded.model_copy(update={"seed": seed}))


def counted(lab: LocalLab, name: str) -> WanPath:
    with DaemonClient(lab.daemons["wan"].control) as client:
        return next(path for path in client.wan_counters().paths if path.name == name)


def echoes(lab: LocalLab, source: str, target: str, count: int = 20) -> list[float]:
    """Round-trip times, ms."""
    node: NamespaceNode = lab.nodes[source]
    command = ["ping", "-n", "-c", str(count), "-i", "0.02", "-W", "2"]
    output = node.run([*command, str(lab.plan.addresses[target])], timeout=60, check=False).stdout
    answers = (line for line in output.splitlines() if "time=" in line)
    return [float(line.split("time=")[1].split()[0]) for line in answers]


def send(lab: LocalLab, count: int, size: int = 500) -> None:
    """Send datagrams from a to b."""
    burst(lab.nodes["a"], str(lab.plan.addresses["b"]), count, size)


@pytest.mark.measures
def test_delay_of_a_link_and_of_a_path(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 10 ms, reverse: {delay: 25 ms}", "delay: 40 ms"))
    assert median(echoes(lab, "a", "b")) == pytest.approx(35, abs=1)
    assert median(echoes(lab, "c", "d")) == pytest.approx(80, abs=1)
    assert counted(lab, "path:p:forward").tx_packets == 20
    assert counted(lab, "path:p:reverse").tx_packets == 20


@pytest.mark.measures
def test_a_direction_without_impairment_is_the_kernels(deploy: Deploy) -> None:
    lab = deploy(plan("reverse: {delay: 20 ms}"))
    assert median(echoes(lab, "a", "b")) == pytest.approx(20, abs=1)
    with DaemonClient(lab.daemons["wan"].control) as client:
        first, second = client.wan_counters().interfaces
    assert (first.rx_packets, second.tx_packets) == (0, 0)
    assert second.rx_packets == first.tx_packets >= 20


@pytest.mark.measures
def test_rate_comes_before_delay_and_tcp_fills_it(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 10 ms, rate: 20 Mbit/s, queue: 100 kB"))
    found = tcp(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), 3)
    assert found["bits_per_second"] == pytest.approx(20e6 * 1448 / 1514, rel=0.02)


def test_every_lost_packet_is_counted_once(deploy: Deploy) -> None:
    lab = deploy(plan("loss: 20 %, reverse: {loss: 0 %}"))
    assert ping(lab.nodes["b"], str(lab.plan.addresses["a"])) >= 0  # neighbours know each other
    before = counted(lab, "link:w:forward")
    received = lab.nodes["b"].counters()["e"]["rx_packets"]
    for _ in range(20):
        send(lab, 50)
    until(lambda: counted(lab, "link:w:forward").rx_packets - before.rx_packets >= 1000)
    after = counted(lab, "link:w:forward")
    lost = after.drop_loss - before.drop_loss
    arrived = lab.nodes["b"].counters()["e"]["rx_packets"] - received
    assert arrived == after.tx_packets - before.tx_packets
    assert arrived + lost == after.rx_packets - before.rx_packets
    assert lost / (after.rx_packets - before.rx_packets) == pytest.approx(0.2, abs=0.05)


def test_equal_seeds_lose_the_same_packets(deploy: Deploy) -> None:
    answered = []
    for seed in (3, 3, 4):
        lab = deploy(plan("reverse: {loss: 40 %}", seed=seed))
        answered.append(sequence(lab))
        lab.destroy()
    assert answered[0] == answered[1] != answered[2]


def sequence(lab: LocalLab) -> list[str]:
    """Numbers of the echoes that were answered; neighbours are set, so nothing else is sent."""
    for one, other in (("a", "b"), ("b", "a")):
        address = str(lab.plan.addresses[other])
        link = lab.nodes[other].run(["ip", "-o", "link", "show", "e"], timeout=60).stdout
        hardware = link.split("link/ether ")[1].split()[0]
        command = ["ip", "neigh", "replace", address, "lladdr", hardware, "dev", "e"]
        lab.nodes[one].run(command, timeout=60)
    command = ["ping", "-n", "-c", "40", "-i", "0.01", "-W", "1", str(lab.plan.addresses["b"])]
    output = lab.nodes["a"].run(command, timeout=60, check=False).stdout
    return [word for word in output.split() if word.startswith("icmp_seq")]


@pytest.mark.measures
def test_a_trace_limits_the_rate(deploy: Deploy) -> None:
    lab = deploy(plan("trace: slow.trace, queue: 30 kB"))
    found = tcp(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), 3)
    # 1504 bytes of a 1514-byte frame an opportunity: what is left of one serves the next.
    assert found["bits_per_second"] == pytest.approx(3.008e6 * 1448 / 1514, rel=0.03)
    assert counted(lab, "link:w:forward").drop_queue > 0


def test_every_packet_comes_twice(deploy: Deploy) -> None:
    lab = deploy(plan("duplication: 100 %, reverse: {duplication: 0 %}"))
    assert ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3
    found = counted(lab, "link:w:forward")
    assert found.duplicated == found.rx_packets == found.tx_packets / 2
    assert lab.nodes["b"].counters()["e"]["rx_packets"] == found.tx_packets


@pytest.mark.measures
def test_values_change_while_it_runs(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 5 ms, rate: 50 Mbit/s"))
    assert median(echoes(lab, "a", "b", 5)) == pytest.approx(10, abs=1)
    lab.apply("link:w", Change(delay=Duration(0.03)))
    assert median(echoes(lab, "a", "b", 5)) == pytest.approx(60, abs=1)
    lab.apply("link:w", Change(loss=Ratio(1)))
    assert ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 0
    lab.apply("link:w", Change(loss=Ratio(0), delay=Duration(0)))
    assert median(echoes(lab, "a", "b", 5)) < 2


@pytest.mark.measures
def test_what_has_no_emulator_cannot_be_delayed(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 5 ms", "rate: 5 Mbit/s"))
    with pytest.raises(DriverError, match="path:p:reverse has no delay, jitter or loss"):
        lab.apply("path:p", Change(delay=Duration(0.03)))
    assert median(echoes(lab, "c", "d", 5)) < 2


def test_partial_checksums_and_full_frames_pass(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 1 ms"))
    a, b = lab.nodes["a"], lab.nodes["b"]
    a.run(["ethtool", "-K", "e", "tx", "on"], timeout=60)  # TCP leaves its checksum to the device
    found: dict[str, Any] = tcp(a, b, str(lab.plan.addresses["b"]), 1)
    assert found["bits_per_second"] > 10e6
    with DaemonClient(lab.daemons["wan"].control) as client:
        assert all(port.drop_oversize == 0 for port in client.wan_counters().interfaces)


@pytest.mark.measures
def test_it_is_on_time_for_a_fast_connection_beside_a_path_that_varies(deploy: Deploy) -> None:
    fast, shaky = "delay: 8 ms, rate: 300 Mbit/s, queue: 1514 kB", "delay: 40 ms, jitter: 8 ms"
    lab = deploy(plan(fast, shaky))
    found = tcp(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), 4)
    assert found["bits_per_second"] > 250e6
    for direction in ("forward", "reverse"):
        assert counted(lab, f"link:w:{direction}").lateness_us.p99 < 1000


def test_packets_wait_for_a_receiver_that_takes_no_more(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 1 ms, rate: 4 Mbit/s, queue: 1 MB, reverse: {delay: 0 ms}"))
    assert ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3
    # It looks for packets five times a second and has room for 256. 3500 come, too few to keep it
    # looking.
    looks = ("echo 1000 > napi_defer_hard_irqs", "echo 200000000 > gro_flush_timeout")
    inside = ["sh", "-c", " && ".join(("cd /sys/class/net/e", *looks))]
    subprocess.run(lab.nodes["b"].attached(inside), timeout=60, check=True)
    before = counted(lab, "link:w:forward").rx_packets
    send(lab, 1000, 100)
    until(lambda: counted(lab, "link:w:forward").lateness_us.count - before >= 1000)
    assert counted(lab, "link:w:forward").lateness_us.max > 20_000
    with DaemonClient(lab.daemons["wan"].control) as client:
        assert [port.drop_send for port in client.wan_counters().interfaces] == [0, 0]


@pytest.mark.measures
def test_a_killed_emulator_comes_back_and_shows(deploy: Deploy) -> None:
    lab = deploy(plan("delay: 5 ms"))
    daemon = lab.daemons["wan"]
    lab.apply("link:w", Change(delay=Duration(0.02)))
    os.kill(daemon.pid, signal.SIGKILL)
    until(lambda: daemon.restarts == 1)
    until(lambda: ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3)
    assert median(echoes(lab, "a", "b", 5)) == pytest.approx(40, abs=1)


def test_netem_is_used_where_it_will_do() -> None:
    assert not has("netem") or plan("delay: 5 ms").daemons == ()
