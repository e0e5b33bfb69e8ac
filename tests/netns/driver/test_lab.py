"""The local driver makes what a plan says, and removes it.

   h1 10.1.0.2 -- gw1 ==a,b== internet ==a,b== gw2 -- 10.2.0.2 h2       `branches(2)`

   a 10.0.0.1 --x-- 10.0.0.2 b                                          `pair`

Both are drawn with all addresses in lab/plans/small.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from hawser.driver import state
from hawser.driver.base import DriverError
from hawser.driver.capabilities import has
from hawser.driver.local import LocalDriver, LocalLab
from hawser.node.base import NodeError
from hawser.node.netns import NamespaceNode, namespace
from hawser.node.netns.command import Background
from hawser.node.process import started
from hawser.overlay.lab.emulator import realised
from hawser.overlay.lab.plan import ClassPlan, NetworkPlan, NodePlan, RoutePlan
from hawser.spec.units import Duration
from lab.plans.small import A, B, branches, interface, pair, whole
from lab.traffic.nodes import ping
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]


def said(node: NamespaceNode, command: str) -> str:
    return node.run(command.split(), timeout=PATIENCE).stdout


def stubborn(node: NamespaceNode, folder: Path) -> Background:
    """Start a program that ignores SIGTERM."""
    ready = folder / "ready"
    script = f"trap '' TERM; touch {ready}; sleep 600 & wait; sleep 600"
    program = node.start(["sh", "-c", script])
    until(ready.exists)
    return program


def available() -> list[str]:
    """Congestion controls of this kernel."""
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def nothing_of(name: str) -> bool:
    """Whether nothing on this machine has the lab's name."""
    mounted = f"hawser.{name}." in Path("/proc/self/mountinfo").read_text()
    named = namespace.names(f"hawser.{name}.")
    return not (mounted or named or (Path("/run/hawser") / name).exists())


def test_what_the_plan_says_is_there(deploy: Deploy) -> None:
    lab = deploy(branches(2))
    gateway = lab.nodes["gw1"]
    assert "198.18.1.2/30" in said(gateway, "ip -o addr show dev a")
    assert "mtu 1500" in said(gateway, "ip link show dev a")
    assert "default via 198.18.1.5 dev b" in said(gateway, "ip route show table 102")
    assert "from 198.18.1.6 lookup 102" in said(gateway, "ip rule")
    endpoints = said(gateway, "ip mptcp endpoint show")
    assert "198.18.1.2 id 1 subflow fullmesh dev a" in endpoints
    assert "198.18.1.6 id 2 subflow fullmesh dev b" in endpoints
    assert "add_addr_accepted 8 subflows 8" in said(gateway, "ip mptcp limits")
    assert said(gateway, "sysctl -n net.ipv4.conf.a.rp_filter").strip() == "0"
    assert said(gateway, "sysctl -n net.ipv4.ip_forward").strip() == "1"


def test_offload_is_off_where_the_plan_says(deploy: Deploy) -> None:
    gateway = deploy(branches(2)).nodes["gw1"]
    features = ("tcp-segmentation-offload", "tx-udp-segmentation", "tx-checksumming")
    for feature in (*features, "generic-segmentation-offload", "generic-receive-offload"):
        assert f"{feature}: off" in said(gateway, "ethtool -k a")
    for feature in features:
        assert f"{feature}: on" in said(gateway, "ethtool -k lan")


def test_every_port_reaches_every_other_by_its_own_path(deploy: Deploy) -> None:
    lab = deploy(branches(2))
    for source, by in ((2, "a"), (6, "b")):
        for target, to in ((2, "a"), (6, "b")):
            assert ping(lab.nodes["gw1"], f"198.18.2.{target}", f"198.18.1.{source}") == 3
            counters = lab.nodes["internet"].counters()
            assert counters[f"path:1{by}-2{to}:forward"]["packets"] == 3
            assert counters[f"path:2{to}-1{by}:forward"]["packets"] == 3


def test_counters_are_exact(deploy: Deploy) -> None:
    lab = deploy(pair(whole()))
    before = lab.nodes["b"].counters()["e"]
    lab.nodes["a"].run(["ping", "-c", "5", "-i", "0.01", "-s", "100", B], timeout=PATIENCE)
    after = lab.nodes["b"].counters()["e"]
    frame = 14 + 20 + 8 + 100
    arp = after["rx_bytes"] - before["rx_bytes"] - 5 * frame
    assert arp in (0, 42, 84)  # one or two ARP packets, as the neighbour is asked back
    unshaped = lab.nodes["a"].counters()
    assert unshaped["link:x:forward"]["packets"] == unshaped["e"]["tx_packets"]


def test_two_labs_of_one_plan_do_not_meet(deploy: Deploy) -> None:
    first, second = deploy(branches(2)), deploy(branches(2))
    before = second.nodes["internet"].counters()
    assert ping(first.nodes["gw1"], "198.18.2.2") == 3
    assert second.nodes["internet"].counters() == before
    first.destroy()
    assert nothing_of(first.name)
    assert ping(second.nodes["gw1"], "198.18.2.2") == 3


def test_five_branches_stand(deploy: Deploy) -> None:
    lab = deploy(branches(5))
    assert len(lab.nodes) == 11
    assert ping(lab.nodes["gw1"], "198.18.5.6") == 3


def test_a_name_is_taken_once(driver: LocalDriver, deploy: Deploy) -> None:
    lab = deploy(pair())
    with pytest.raises(DriverError, match=f"made by process {os.getpid()}: destroy it first"):
        driver.deploy(lab.name, pair())
    assert ping(lab.nodes["a"], B) == 3


@pytest.mark.parametrize("name", ["", "Lab", "a.b", "a/b", "-a", "x" * 49, "ö"])
def test_bad_names_are_refused(driver: LocalDriver, name: str) -> None:
    for act in (lambda: driver.deploy(name, pair()), lambda: driver.destroy(name)):
        with pytest.raises(DriverError, match="lab name"):
            act()


BAD = {
    "node a: setting 'kernel.hostname': expected one of a network namespace": pair(
        sysctl={"kernel.hostname": "x"}
    ),
    "node a: setting 'net.../../kernel.x': expected": pair(sysctl={"net.../../kernel.x": "1"}),
    "node a: setting net.ipv4.no_such: this kernel has none": pair(
        sysctl={"net.ipv4.no_such": "1"}
    ),
    "node a: setting net.ipv4.tcp_rmem = 'x': not accepted": pair(
        sysctl={"net.ipv4.tcp_rmem": "x"}
    ),
    "congestion control 'x': this kernel has only ": pair(
        sysctl={"net.ipv4.tcp_congestion_control": "x"}
    ),
    "node a: interface e: .*File exists": pair(more=(f"{A}/24",)),
}


@pytest.mark.parametrize("algorithm", available())
def test_any_congestion_control_of_the_kernel_can_be_the_default(
    deploy: Deploy, algorithm: str
) -> None:
    key = "net.ipv4.tcp_congestion_control"
    lab = deploy(pair(sysctl={key: algorithm}))
    assert said(lab.nodes["a"], f"sysctl -n {key}").strip() == algorithm


@pytest.mark.parametrize("message", BAD)
def test_what_the_kernel_refuses_is_named_and_nothing_stays(
    driver: LocalDriver, lab_name: str, message: str
) -> None:
    with pytest.raises(DriverError, match=message):
        driver.deploy(lab_name, BAD[message])
    assert nothing_of(lab_name)


def test_a_route_that_leads_nowhere_is_named(driver: LocalDriver, lab_name: str) -> None:
    route = RoutePlan(to=IPv4Network("10.9.0.0/24"), via=IPv4Address("192.0.2.1"), interface="e")
    node = NodePlan(name="a", role="host", interfaces=(interface("e", f"{A}/24"),), routes=(route,))
    plan = pair()
    plan = plan.model_copy(update={"nodes": (node, plan.nodes[1])})
    with pytest.raises(DriverError, match=r"node a: route to 10.9.0.0/24: .*unreachable"):
        driver.deploy(lab_name, plan)
    assert nothing_of(lab_name)


def test_destroy_ends_what_lives_in_the_lab_and_nothing_else(
    driver: LocalDriver, deploy: Deploy, tmp_path: Path
) -> None:
    lab = deploy(pair())
    outside = subprocess.Popen(["sleep", "600"])
    inside = [lab.nodes["a"].start(["sleep", "600"]), stubborn(lab.nodes["b"], tmp_path)]
    driver.destroy(lab.name)
    assert [process.running() for process in inside] == [False, False]
    assert outside.poll() is None
    outside.kill()
    outside.wait()
    assert nothing_of(lab.name)
    for process in inside:
        process.stop()


def test_destroy_is_idempotent(driver: LocalDriver, deploy: Deploy) -> None:
    lab = deploy(pair())
    for _ in range(2):
        lab.destroy()
        driver.destroy(lab.name)
    assert lab.name not in driver.labs()
    with pytest.raises(NodeError, match="cannot be entered"):
        lab.nodes["a"].run(["true"], timeout=PATIENCE)


def test_two_may_destroy_at_once(driver: LocalDriver, deploy: Deploy, tmp_path: Path) -> None:
    lab = deploy(branches(2))
    program = stubborn(lab.nodes["h1"], tmp_path)
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(driver.destroy, lab.name) for _ in range(4)]:
            done.result()
    program.stop()
    assert nothing_of(lab.name)


def test_another_process_can_attach_and_destroy(driver: LocalDriver, deploy: Deploy) -> None:
    lab = deploy(branches(2))
    assert lab.name in driver.labs()
    same = LocalDriver().attach(lab.name)
    assert same.plan == lab.plan
    assert ping(same.nodes["gw1"], "198.18.2.2") == 3
    same.destroy()
    assert lab.name not in driver.labs()


def test_remains_are_listed_and_removed(driver: LocalDriver, lab_name: str) -> None:
    state.create(Path("/run/hawser") / lab_name)
    other = f"{lab_name}-space"
    namespace.create(f"hawser.{other}.n")
    assert {lab_name, other} <= set(driver.labs())
    with pytest.raises(DriverError, match="destroy it"):
        driver.attach(lab_name)
    with pytest.raises(DriverError, match="destroy it first"):
        driver.deploy(lab_name, pair())
    for name in (other, lab_name):
        driver.destroy(name)
        assert nothing_of(name)


def test_a_half_made_lab_cannot_be_used(driver: LocalDriver, lab_name: str) -> None:
    directory = Path("/run/hawser") / lab_name
    for pid, message in ((os.getpid(), "is being made"), (4_000_000, "only remains are left")):
        state.create(directory)
        maker = state.ProcessRecord(pid=pid, started=started(pid) or 1)
        record = state.LabRecord(name=lab_name, maker=maker, created=0, plan=pair())
        state.write(directory, record)
        with pytest.raises(DriverError, match=message):
            driver.attach(lab_name)
        driver.destroy(lab_name)


def test_a_lab_being_made_is_not_removed_under_its_maker(
    lab_name: str, monkeypatch: pytest.MonkeyPatch, driver: LocalDriver
) -> None:
    monkeypatch.setattr("hawser.driver.local._LOCK_WAIT", 0.2)
    directory = Path("/run/hawser") / lab_name
    state.create(directory)
    with state.locked(directory, 0), pytest.raises(DriverError, match="making or removing"):
        driver.destroy(lab_name)
    assert directory.exists()


def test_delay_is_netems_or_the_emulators(driver: LocalDriver, deploy: Deploy) -> None:
    plan = pair(ClassPlan(name="link:x:forward", delay=Duration(0.02)))
    assert not driver.missing(realised(plan, driver.facts()))
    assert any("netem" in lack for lack in driver.missing(plan)) == (not has("netem"))
    lab = deploy(plan)
    assert ("wan" in lab.daemons) == (not has("netem"))
    report = lab.nodes["a"].run(["ping", "-c", "3", "-i", "0.1", B], timeout=PATIENCE).stdout
    assert float(report.split(" = ")[1].split("/")[0]) >= 20


def test_commands(deploy: Deploy) -> None:
    node = deploy(pair()).nodes["a"]
    assert node.run(
        ["sh", "-c", "echo $X; exit 3"], timeout=PATIENCE, check=False, env={"X": "y"}
    ) == (node.run(["sh", "-c", "echo y; exit 3"], timeout=PATIENCE, check=False))
    with pytest.raises(NodeError, match=r"exit code 1\n  why"):
        node.run(["sh", "-c", "echo why >&2; exit 1"], timeout=PATIENCE)
    with pytest.raises(NodeError, match=r"took longer than 0\.1 s"):
        node.run(["sleep", "9"], timeout=0.1)
    with pytest.raises(NodeError, match="no-such-program: cannot be started: No such file"):
        node.run(["no-such-program"], timeout=PATIENCE)


def test_background_processes(deploy: Deploy, tmp_path: Path) -> None:
    node = deploy(pair()).nodes["a"]
    ready = tmp_path / "ready"
    program = node.start(["sh", "-c", f"echo out; echo err >&2; touch {ready}; sleep 600"])
    logged = node.start(["sh", "-c", "echo out; echo err >&2; sleep 600"], log=tmp_path / "log")
    until(lambda: (tmp_path / "log").read_text() == "out\nerr\n")
    until(ready.exists)
    assert program.running()
    done = program.stop(grace=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (-15, "out\n", "err\n")
    assert program.stop() is done
    assert logged.stop(grace=0.1).stdout == ""
    assert not logged.running()
