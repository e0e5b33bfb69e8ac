"""The WAN emulator between two hosts, and between two ports of the internet.

   a --w-- wan --w-- b            c --- wan --- internet --- wan --- d       one emulator, `wan`

Drawn with interfaces in lab/plans/wan.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

import pytest

from hawser.driver.base import DriverError
from hawser.driver.capabilities import has
from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe.counted import read
from hawser.spec.units import Duration, Rate, Ratio
from hawser.spec.workflow import Change
from lab.plans.small import FRAME, MBIT
from lab.plans.wan import counted, echoes, interfaces, plan
from lab.traffic.counted import Limit, datagrams, deliver, frames, kernel_rate, limit
from lab.traffic.counted import send as send_datagrams
from lab.traffic.nodes import burst, ping
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]
FORWARD, REVERSE = "link:w:forward", "link:w:reverse"
PATH = "path:p:forward"


def send(lab: LocalLab, count: int, size: int = 500) -> None:
    """Send datagrams from a to b."""
    burst(lab.nodes["a"], str(lab.plan.addresses["b"]), count, size)


def over(lab: LocalLab, size: int) -> None:
    """Send bytes over TCP from a to b, and check that they all came."""
    deliver(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), size)


def delays(lab: LocalLab) -> tuple[float, float]:
    """Delays that the emulator applies from a to b and back, ms."""
    return counted(lab, FORWARD).delay_us / 1000, counted(lab, REVERSE).delay_us / 1000


def test_delay_of_a_link_and_of_a_path(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "10 ms", "reverse": {"delay": "25 ms"}}, {"delay": "40 ms"}))
    assert min(echoes(lab, "a", "b")) >= 35
    assert min(echoes(lab, "c", "d")) >= 80
    assert delays(lab) == (10, 25)
    for path in ("path:p:forward", "path:p:reverse"):
        until(lambda name=path: counted(lab, name).tx_packets >= 20)
        found = counted(lab, path)
        assert (found.tx_packets, found.delay_us) == (20, 40_000)


def test_a_direction_without_impairment_is_the_kernels(deploy: Deploy) -> None:
    lab = deploy(plan({"reverse": {"delay": "20 ms"}}))
    assert min(echoes(lab, "a", "b")) >= 20
    until(lambda: interfaces(lab)[0].tx_packets >= 20)
    first, second = interfaces(lab)
    assert (first.rx_packets, second.tx_packets) == (0, 0)
    assert second.rx_packets == first.tx_packets >= 20


def test_rate_comes_before_delay_and_tcp_fills_it(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "10 ms", "rate": "20 Mbit/s", "queue": "100 kB"}))
    a = lab.nodes["a"]
    assert kernel_rate(a, FORWARD) == 20 * MBIT
    shaped = limit(a, FORWARD)
    over(lab, 4_000_000)
    assert shaped.bytes() > 4_000_000
    shaped.holds(20 * MBIT)
    assert min(echoes(lab, "a", "b", 5)) >= 20
    # Excess packets are dropped before the emulator; all others pass it.
    before = a.counters()[FORWARD]["drop_queue"]
    send(lab, 400, FRAME - 42)
    assert a.counters()[FORWARD]["drop_queue"] > before
    until(lambda: a.counters()[FORWARD]["backlog"] == 0)
    until(lambda: counted(lab, FORWARD).tx_packets >= a.counters()[FORWARD]["packets"])
    found = counted(lab, FORWARD)
    assert (found.drop_queue, found.drop_loss) == (0, 0)


def test_every_lost_packet_is_counted_once(deploy: Deploy) -> None:
    lab = deploy(plan({"loss": "20 %", "reverse": {"loss": "0 %"}}))
    assert ping(lab.nodes["b"], str(lab.plan.addresses["a"])) >= 0  # neighbours are resolved
    before = counted(lab, FORWARD)
    received = lab.nodes["b"].counters()["e"]["rx_packets"]
    for _ in range(20):
        send(lab, 50)
    until(lambda: counted(lab, FORWARD).rx_packets - before.rx_packets >= 1000)

    def pending() -> int:
        now = counted(lab, FORWARD)
        return now.rx_packets - now.tx_packets - now.drop_loss

    until(lambda: pending() == 0)
    after = counted(lab, FORWARD)
    lost = after.drop_loss - before.drop_loss
    sent = after.tx_packets - before.tx_packets
    until(lambda: lab.nodes["b"].counters()["e"]["rx_packets"] - received >= sent)
    arrived = lab.nodes["b"].counters()["e"]["rx_packets"] - received
    assert arrived == sent
    assert arrived + lost == after.rx_packets - before.rx_packets
    assert lost / (after.rx_packets - before.rx_packets) == pytest.approx(0.2, abs=0.05)


def test_equal_seeds_lose_the_same_packets(deploy: Deploy) -> None:
    answered = []
    for seed in (3, 3, 4):
        lab = deploy(plan({"reverse": {"loss": "40 %"}}, seed=seed))
        answered.append(sequence(lab))
        lab.destroy()
    assert answered[0] == answered[1] != answered[2]


def sequence(lab: LocalLab) -> list[bytes]:
    """Numbers of the datagrams from b that come; neighbours are set, so nothing else is sent."""
    for one, other in (("a", "b"), ("b", "a")):
        address = str(lab.plan.addresses[other])
        link = lab.nodes[other].run(["ip", "-o", "link", "show", "e"], timeout=PATIENCE).stdout
        hardware = link.split("link/ether ")[1].split()[0]
        command = ["ip", "neigh", "replace", address, "lladdr", hardware, "dev", "e"]
        lab.nodes[one].run(command, timeout=PATIENCE)
    numbers = [number for each in range(40) for number in frames(b"%d." % each, 1, 100)]
    with datagrams(lab.nodes["a"]) as arrived:
        send_datagrams(lab.nodes["b"], str(lab.plan.addresses["a"]), numbers)
        until(lambda: counted(lab, REVERSE).rx_packets == 40)
        until(lambda: len(arrived()) + counted(lab, REVERSE).drop_loss == 40)
        return [datagram.partition(b".")[0] for datagram in arrived()]


def test_a_trace_limits_the_rate(deploy: Deploy) -> None:
    lab = deploy(plan({"trace": "slow.trace", "queue": "30 kB"}))
    counts = Limit(lambda: counted(lab, FORWARD).tx_bytes)
    over(lab, 500_000)
    assert counts.bytes() > 500_000
    # 1504 bytes of a 1514-byte frame an opportunity: what is left of one serves the next.
    counts.holds(3.008e6, burst=2 * FRAME)
    send(lab, 100, FRAME - 42)
    until(lambda: counted(lab, FORWARD).drop_queue > 0)


def test_a_path_of_the_internet_waits_in_the_emulator(deploy: Deploy) -> None:
    lab = deploy(plan(path={"delay": "10 ms", "rate": "20 Mbit/s", "queue": "100 kB"}))
    c, d, address = lab.nodes["c"], lab.nodes["d"], str(lab.plan.addresses["d"])
    shaped = Limit(lambda: passed(lab)["bytes"])
    deliver(c, d, address, 4_000_000)
    assert shaped.bytes() > 4_000_000
    shaped.holds(20 * MBIT, burst=0)
    before = passed(lab)
    burst(c, address, 400, FRAME - 42)
    assert passed(lab)["drop_queue"] > before["drop_queue"]
    assert lab.nodes["internet"].counters()[PATH]["drop_queue"] == 0
    until(lambda: passed(lab)["backlog"] == 0)
    until(lambda: counted(lab, PATH).tx_packets == passed(lab)["packets"])
    sent = passed(lab)["packets"] - before["packets"]
    assert sent + passed(lab)["drop_queue"] - before["drop_queue"] >= 400


def test_a_rate_in_the_emulator_changes_while_packets_wait(deploy: Deploy) -> None:
    lab = deploy(plan(path={"delay": "1 ms", "rate": "100 kbit/s", "queue": "50 kB"}))
    assert ping(lab.nodes["c"], str(lab.plan.addresses["d"])) == 3
    burst(lab.nodes["c"], str(lab.plan.addresses["d"]), 20, FRAME - 42)
    until(lambda: passed(lab)["backlog"] >= 10 * FRAME)
    slow = Limit(lambda: passed(lab)["bytes"])
    time.sleep(0.3)
    slow.holds(100_000, burst=0)
    assert passed(lab)["backlog"] > 0
    lab.apply("path:p", Change(rate=Rate(100 * MBIT)))
    until(lambda: passed(lab)["backlog"] == 0)


def passed(lab: LocalLab) -> Mapping[str, int]:
    """What the internet's path from c to d counts."""
    return read(lab, ["internet"])["internet"][PATH]


def test_every_packet_comes_twice(deploy: Deploy) -> None:
    lab = deploy(plan({"duplication": "100 %", "reverse": {"duplication": "0 %"}}))
    assert ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3
    received = lab.nodes["b"].counters
    until(lambda: received()["e"]["rx_packets"] == 2 * counted(lab, FORWARD).rx_packets)
    found = counted(lab, FORWARD)
    assert found.duplicated == found.rx_packets == found.tx_packets / 2
    assert received()["e"]["rx_packets"] == found.tx_packets


def test_values_change_while_it_runs(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "5 ms", "rate": "50 Mbit/s"}))
    assert min(echoes(lab, "a", "b", 5)) >= 10
    assert delays(lab) == (5, 5)
    lab.apply("link:w", Change(delay=Duration(0.03)))
    assert min(echoes(lab, "a", "b", 5)) >= 60
    assert delays(lab) == (30, 30)
    lab.apply("link:w", Change(loss=Ratio(1)))
    assert ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 0
    assert counted(lab, FORWARD).drop_loss >= 3
    lab.apply("link:w", Change(loss=Ratio(0), delay=Duration(0)))
    until(lambda: ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3)
    assert delays(lab) == (0, 0)


def test_what_has_no_emulator_cannot_be_delayed(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "5 ms"}, {"rate": "5 Mbit/s"}))
    before = lab.plan
    with pytest.raises(DriverError, match="path:p:reverse has no delay, jitter or loss"):
        lab.apply("path:p", Change(delay=Duration(0.03)))
    assert lab.plan == before
    seen = [port.rx_packets for port in interfaces(lab)]
    assert ping(lab.nodes["c"], str(lab.plan.addresses["d"])) == 3
    assert [port.rx_packets for port in interfaces(lab)] == seen


def test_partial_checksums_and_full_frames_pass(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "1 ms"}))
    a, b = lab.nodes["a"], lab.nodes["b"]
    a.run(
        ["ethtool", "-K", "e", "tx", "on"], timeout=PATIENCE
    )  # TCP leaves the checksum to the device
    deliver(a, b, str(lab.plan.addresses["b"]), 5_000_000)
    assert counted(lab, FORWARD).rx_bytes / counted(lab, FORWARD).rx_packets > 1000
    assert all(port.drop_oversize == 0 for port in interfaces(lab))


def test_a_fast_connection_passes_beside_a_path_that_varies(deploy: Deploy) -> None:
    fast = {"delay": "8 ms", "rate": "300 Mbit/s", "queue": "1514 kB"}
    shaky = {"delay": "40 ms", "jitter": "8 ms"}
    lab = deploy(plan(fast, shaky))
    assert ping(lab.nodes["c"], str(lab.plan.addresses["d"])) == 3  # neighbours are resolved
    with datagrams(lab.nodes["d"]) as arrived:
        send_datagrams(lab.nodes["c"], str(lab.plan.addresses["d"]), frames(b"x", 200, 500))
        over(lab, 20_000_000)
        until(lambda: len(arrived()) == 200)
    for path in (FORWARD, REVERSE, "path:p:forward"):
        found = counted(lab, path)
        assert (found.drop_loss, found.drop_queue, found.drop_buffer) == (0, 0, 0)
    assert all(port.drop_send == 0 for port in interfaces(lab))


def test_packets_wait_for_a_receiver_that_takes_no_more(deploy: Deploy) -> None:
    lab = deploy(
        plan({"delay": "1 ms", "rate": "4 Mbit/s", "queue": "1 MB", "reverse": {"delay": "0 ms"}})
    )
    assert ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3
    # It looks for packets five times a second and has room for 256. 3500 come, too few to keep it
    # looking.
    looks = ("echo 1000 > napi_defer_hard_irqs", "echo 200000000 > gro_flush_timeout")
    inside = ["sh", "-c", " && ".join(("cd /sys/class/net/e", *looks))]
    subprocess.run(lab.nodes["b"].attached(inside), timeout=PATIENCE, check=True)
    before = counted(lab, FORWARD).rx_packets
    send(lab, 1000, 100)
    until(lambda: counted(lab, FORWARD).lateness_us.count - before >= 1000)
    assert counted(lab, FORWARD).lateness_us.max > 20_000
    assert [port.drop_send for port in interfaces(lab)] == [0, 0]


def test_a_killed_emulator_comes_back_and_shows(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "5 ms"}))
    daemon = lab.daemons["wan"]
    lab.apply("link:w", Change(delay=Duration(0.02)))
    os.kill(daemon.pid, signal.SIGKILL)
    until(lambda: daemon.restarts == 1)
    until(lambda: ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3)
    assert min(echoes(lab, "a", "b", 5)) >= 40
    assert delays(lab) == (20, 20)


def test_netem_is_used_where_it_will_do() -> None:
    assert not has("netem") or plan({"delay": "5 ms"}).daemons == ()
