"""Delay, rate and lateness of the WAN emulator.

a --w-- wan --w-- b          c --- wan --- internet --- wan --- d     (lab/plans/wan.py)

a 10.0.0.1 --x-- 10.0.0.2 b                                           (`pair`)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from statistics import median

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import ClassPlan, NetworkPlan
from hawser.spec.units import Duration, Ratio
from hawser.spec.workflow import Change
from lab.plans.small import B, pair
from lab.plans.wan import counted, echoes, plan
from lab.traffic.nodes import ping, tcp
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]


def test_delay_of_a_link_and_of_a_path(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "10 ms", "reverse": {"delay": "25 ms"}}, {"delay": "40 ms"}))
    assert median(echoes(lab, "a", "b")) == pytest.approx(35, abs=1)
    assert median(echoes(lab, "c", "d")) == pytest.approx(80, abs=1)


def test_a_direction_without_impairment_takes_no_time(deploy: Deploy) -> None:
    lab = deploy(plan({"reverse": {"delay": "20 ms"}}))
    assert median(echoes(lab, "a", "b")) == pytest.approx(20, abs=1)


def test_delay_of_a_cable_is_no_longer_than_asked(deploy: Deploy) -> None:
    """By netem, or by the emulator where the kernel has none."""
    lab = deploy(pair(ClassPlan(name="link:x:forward", delay=Duration(0.02))))
    command = ["ping", "-c", "3", "-i", "0.1", B]
    report = lab.nodes["a"].run(command, timeout=PATIENCE).stdout
    least = float(report.split(" = ")[1].split("/")[0])  # the first echo waits for ARP as well
    assert 20 <= least < 25


def test_tcp_fills_the_rate_before_a_delay(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "10 ms", "rate": "20 Mbit/s", "queue": "100 kB"}))
    found = tcp(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), 3)
    assert found["bits_per_second"] == pytest.approx(20e6 * 1448 / 1514, rel=0.02)


def test_tcp_fills_a_trace(deploy: Deploy) -> None:
    lab = deploy(plan({"trace": "slow.trace", "queue": "30 kB"}))
    found = tcp(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), 3)
    # 1504 bytes of a 1514-byte frame an opportunity: what is left of one serves the next.
    assert found["bits_per_second"] == pytest.approx(3.008e6 * 1448 / 1514, rel=0.03)


def test_delay_that_changes_while_it_runs(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "5 ms", "rate": "50 Mbit/s"}))
    assert median(echoes(lab, "a", "b", 5)) == pytest.approx(10, abs=1)
    lab.apply("link:w", Change(delay=Duration(0.03)))
    assert median(echoes(lab, "a", "b", 5)) == pytest.approx(60, abs=1)
    lab.apply("link:w", Change(loss=Ratio(0), delay=Duration(0)))
    assert median(echoes(lab, "a", "b", 5)) < 2


def test_what_has_no_emulator_takes_no_time(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "5 ms"}, {"rate": "5 Mbit/s"}))
    assert median(echoes(lab, "c", "d", 5)) < 2


def test_tcp_with_checksums_left_to_the_device(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "1 ms"}))
    a, b = lab.nodes["a"], lab.nodes["b"]
    a.run(["ethtool", "-K", "e", "tx", "on"], timeout=PATIENCE)
    assert tcp(a, b, str(lab.plan.addresses["b"]), 1)["bits_per_second"] > 10e6


# One packet in a hundred may be late: stalls of a third of that leave the test undecided.
@pytest.mark.stalls(0.003)
def test_it_is_on_time_for_a_fast_connection_beside_a_path_that_varies(deploy: Deploy) -> None:
    fast = {"delay": "8 ms", "rate": "300 Mbit/s", "queue": "1514 kB"}
    shaky = {"delay": "40 ms", "jitter": "8 ms"}
    lab = deploy(plan(fast, shaky))
    found = tcp(lab.nodes["a"], lab.nodes["b"], str(lab.plan.addresses["b"]), 4)
    assert found["bits_per_second"] > 250e6
    for direction in ("forward", "reverse"):
        assert counted(lab, f"link:w:{direction}").lateness_us.p99 < 1000


def test_delay_after_the_emulator_was_killed(deploy: Deploy) -> None:
    lab = deploy(plan({"delay": "5 ms"}))
    daemon = lab.daemons["wan"]
    lab.apply("link:w", Change(delay=Duration(0.02)))
    os.kill(daemon.pid, signal.SIGKILL)
    until(lambda: daemon.restarts == 1)
    until(lambda: ping(lab.nodes["a"], str(lab.plan.addresses["b"])) == 3)
    assert median(echoes(lab, "a", "b", 5)) == pytest.approx(40, abs=1)
