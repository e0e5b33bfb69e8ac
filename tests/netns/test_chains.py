"""Chains of a workflow carry real traffic through their functions, whatever leads it.

client --in-- n1 --between-- n2          functions f1, f3 at n1, f2 at n2
              n1 --out-- server
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from driver_traffic import iperf_server, ping, tcp
from waiting import until

from hawser.control.client import DaemonClient
from hawser.driver.capabilities import missing
from hawser.driver.local import LocalLab
from hawser.node import namespace
from hawser.node.netns import NamespaceNode
from hawser.overlay import network
from hawser.overlay.chain.layout import OWN_PORT
from hawser.overlay.plan import NetworkPlan
from hawser.probe.passive import Passive
from hawser.spec import load
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]

WORKFLOW = """\
hawser: 1
name: chains
title: A chain
topology:
  nodes: [client, n1, n2, server]
  links:
    in: {ends: [client.eth, n1.in]}
    between: {ends: [n1.far, n2.near]BETWEEN}
    out: {ends: [n1.out, server.eth]}
functions:
  f1: {kind: forwarder, node: n1}
  f2: {kind: forwarder, node: n2}
  f3: {kind: forwarder, node: n1}
  fw:
    kind: firewall
    node: n1
    stateful: true
    otherwise: deny
    rules:
      - {protocol: icmp, action: allow}
      - {protocol: tcp, destination_ports: [5201, 5201], source: 10.255.0.1/32, action: allow}
chains:
  c: {from: client, to: server, functions: [f1, f2], CHAIN}
measurements:
  rtt: {probe: ping, from: client, to: server}
"""

SERVER = "10.255.0.10"


def planned(
    chain: str, between: str = "", functions: str = "[f1, f2]", workflow: str = WORKFLOW
) -> NetworkPlan:
    text = workflow.replace("CHAIN", chain).replace("BETWEEN", between)
    text = text.replace("[f1, f2]", functions)
    return network(load("x.yaml", lambda _: text.encode()).variants[0].scenario)


@contextmanager
def sniffed(
    node: NamespaceNode, interface: str, what: str = ""
) -> Iterator[Callable[[], list[str]]]:
    """Watch an interface; what tcpdump said of each packet."""
    command = [
        "tcpdump",
        "-nn",
        "-l",
        "--immediate-mode",
        "-c",
        "2000",
        "-i",
        interface,
        *what.split(),
    ]
    process = node.start(command)
    time.sleep(0.5)
    try:
        yield lambda: list(process.stop().stdout.splitlines())
    finally:
        process.stop(0)


def passed(lab: LocalLab, function: str) -> int:
    """Packets that came to a function, by whatever port."""
    ports = lab.nodes[function].counters().items()
    return sum(counted["rx_packets"] for port, counted in ports if port.startswith("f"))


@pytest.mark.measures
@pytest.mark.parametrize("between", ["", ", rate: 200 Mbit/s, delay: 2 ms"], ids=["bare", "far"])
@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_tcp_passes_every_function_both_ways(deploy: Deploy, steering: str, between: str) -> None:
    lab = deploy(planned(f"steering: {steering}", between))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    before = [passed(lab, function) for function in ("f1", "f2")]
    assert before[0] >= 6
    assert before[1] >= 6
    assert tcp(client, server, SERVER, 1)["bits_per_second"] > 20e6
    for function, earlier in zip(("f1", "f2"), before, strict=True):
        assert passed(lab, function) - earlier > 1000
    if between:
        text = client.run(["ping", "-c", "3", "-i", "0.05", "-q", SERVER], timeout=60).stdout
        least = float(text.rpartition("= ")[2].partition("/")[0])
        assert 8 <= least < 40, "each way crosses the far link twice, 2 ms each time"


@pytest.mark.measures
def test_a_rate_holds_for_what_programs_lead(deploy: Deploy) -> None:
    lab = deploy(planned("steering: nsh", ", rate: 20 Mbit/s"))
    found = tcp(lab.nodes["client"], lab.nodes["server"], SERVER, 1)["bits_per_second"]
    assert 8e6 < found < 20e6


@pytest.mark.measures
@pytest.mark.parametrize("proxy", ["static", "dynamic", "masquerading"])
def test_functions_behind_proxies_are_passed(deploy: Deploy, proxy: str) -> None:
    text = WORKFLOW.replace("node: n1}\n  f2: {", f"node: n1, proxy: {proxy}}}\n  f2: {{", 1)
    mode = "encap.red" if proxy == "dynamic" else "encap"
    lab = deploy(planned(f"steering: srv6, srv6: {{mode: {mode}}}", workflow=text))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    with DaemonClient(lab.daemons["f1-proxy"].control) as control:
        counters = control.function_counters()
    assert [(p.toward.packets, p.returned.packets) for p in counters.proxies] == [(3, 3)] * 2
    assert sum(counters.drops.values()) == 0
    assert tcp(client, server, SERVER, 1)["bits_per_second"] > 20e6
    assert passed(lab, "f1") > 1000
    assert passed(lab, "f2") > 1000


@pytest.mark.measures
@pytest.mark.parametrize(
    ("proxy", "mode"),
    [(None, "encap"), ("static", "encap"), (None, "insert"), ("masquerading", "insert")],
)
def test_ipv6_is_led_too(deploy: Deploy, proxy: str | None, mode: str) -> None:
    behind = f"node: n1, proxy: {proxy}}}" if proxy else "node: n1}"
    text = WORKFLOW.replace("node: n1}\n  f2: {", f"{behind}\n  f2: {{", 1)
    lab = deploy(planned(f"steering: srv6, srv6: {{ipv6: true, mode: {mode}}}", workflow=text))
    client, server = lab.nodes["client"], lab.nodes["server"]
    (address,) = (a.ip for a in server.plan.interfaces[0].addresses if a.version == 6)
    with sniffed(lab.nodes["n1"], "far", "ip6 proto 43") as lines:
        assert ping(client, str(address)) == 3
        seen = [line for line in lines() if "echo request" in line]
    assert seen
    assert all((") IP6" in line) == (mode == "encap") for line in seen), seen
    assert passed(lab, "f1") >= 3
    assert passed(lab, "f2") >= 6
    assert ping(client, SERVER) == 3
    assert tcp(client, server, str(address), 1)["bits_per_second"] > 20e6
    assert passed(lab, "f1") > 1000


@pytest.mark.parametrize(
    "how",
    [
        "function: End.X",
        "function: End.X, mode: encap.red",
        "function: End.X, mode: insert",
        "last: End.DT",
        "last: End.DT46",
        "last: End.DT46, function: End.X, mode: encap.red",
    ],
)
def test_segments_do_what_a_workflow_asks_for(deploy: Deploy, how: str) -> None:
    plan = planned(f"steering: srv6, srv6: {{ipv6: true, {how}}}", functions="[f1, f3, f2]")
    if lacking := missing(plan):
        pytest.skip(lacking[0])
    lab = deploy(plan)
    client, server = lab.nodes["client"], lab.nodes["server"]
    (address,) = (a.ip for a in server.plan.interfaces[0].addresses if a.version == 6)
    for number, target in enumerate((SERVER, str(address)), 1):
        assert ping(client, target) == 3
        assert all(passed(lab, each) >= 6 * number for each in ("f1", "f2", "f3"))
    for each in ("f1", "f2", "f3"):
        knows = lab.nodes[each].run(["ip", "-6", "route"], timeout=60).stdout
        assert ("seg6local" in knows) == ("End.X" not in how)


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_match_leads_only_what_fits(deploy: Deploy, steering: str) -> None:
    match = "match: {protocol: tcp, destination_ports: [5000, 5010]}"
    lab = deploy(planned(f"steering: {steering}, {match}"))
    client = lab.nodes["client"]
    before = passed(lab, "f2")
    assert ping(client, SERVER) == 3
    for port in (4999, 5011):
        assert _refused(client, port)
    assert passed(lab, "f2") - before < 3
    before = passed(lab, "f2")
    for port in (5000, 5010):
        assert _refused(client, port)
    assert passed(lab, "f2") - before >= 4


def _refused(client: NamespaceNode, port: int) -> bool:
    """Ask for a connection where nobody listens: a segment there and one back."""
    connect = ["bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/{port}"]
    return "refused" in client.run(connect, timeout=60, check=False).stderr


@pytest.mark.measures
def test_a_firewall_of_the_workflow_has_its_rules(deploy: Deploy) -> None:
    lab = deploy(planned("steering: nsh", functions="[fw]"))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    assert tcp(client, server, SERVER, 1)["bits_per_second"] > 20e6
    with iperf_server(server):
        connect = ["timeout", "1", "bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/5202"]
        assert client.run(connect, timeout=60, check=False).returncode == 124
    with DaemonClient(lab.daemons["fw"].control) as control:
        assert control.function_counters().drops["denied"] > 0


def test_what_functions_count_is_told(deploy: Deploy) -> None:
    lab = deploy(planned("steering: nsh"))
    with Passive(lab) as passive:
        assert ping(lab.nodes["client"], SERVER) == 3
        samples = {(s.subject, s.metric): s.value for s in passive.finish()}
    assert samples["daemon:f1", "served_packets"] == 6
    assert samples["chain:c:forward", "classified_packets"] == 3
    assert samples["chain:c:reverse:n2:f2", "led_packets"] == 3
    assert samples["chain:c:forward:n2:end", "led_packets"] == 3
    assert samples["daemon:n1", "drop_no_hop"] == 0


def test_each_core_has_a_queue_of_its_own(deploy: Deploy) -> None:
    text = WORKFLOW.replace("f1: {kind: forwarder,", "f1: {kind: forwarder, queues: 2,")
    lab = deploy(planned("steering: nsh", workflow=text))
    for core in (0, 1):
        there = ["taskset", "-c", str(core), "ping", "-c", "50", "-i", "0.002", "-q", SERVER]
        assert " 0% packet loss" in lab.nodes["client"].run(there, timeout=60).stdout
    counted = lab.nodes["f1"].run(["ethtool", "-S", OWN_PORT], timeout=60).stdout
    by_queue = [int(n) for n in re.findall(r"rx_queue_\d+_xdp_packets: (\d+)", counted)]
    assert len(by_queue) == 2
    assert min(by_queue) >= 50


class Echoes:
    """Echoes every 5 ms, each told with its time when it is answered."""

    def __init__(self, lab: LocalLab) -> None:
        inside = lab.nodes["client"].attached(["ping", "-D", "-n", "-i", "0.005", SERVER])
        self._process = subprocess.Popen(inside, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Echoes:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def answers(self) -> list[float]:
        """End them; when each answer came."""
        self._process.send_signal(signal.SIGINT)
        text = self._process.communicate(timeout=60)[0]
        return [float(found) for found in re.findall(r"^\[([\d.]+)\] \d+ bytes", text, re.M)]


def drops(lab: LocalLab) -> int:
    """Packets that found no way on."""
    total = 0
    for name in ("n1", "n2"):
        with DaemonClient(lab.daemons[name].control) as control:
            total += control.function_counters().drops["no_hop"]
    return total


@pytest.mark.measures
def test_a_killed_function_opens_its_chain(deploy: Deploy) -> None:
    lab = deploy(planned("fail: open"))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        lab.apply("function:f2", Change(up=False))
        killed = time.time()
        time.sleep(0.8)
        assert passed(lab, "f1") > 20
        lab.apply("function:f2", Change(up=True))
        before = passed(lab, "f2")
        until(lambda: passed(lab, "f2") > before + 20)
        answers = echoes.answers()
    gaps = [b - a for a, b in pairwise(answers) if killed - 0.1 < a]
    assert max(gaps) < 0.2, "the chain is open within 200 ms"
    assert lab.daemons["f2"].restarts == 0


@pytest.mark.measures
def test_a_killed_function_closes_its_chain(deploy: Deploy) -> None:
    lab = deploy(planned("fail: closed"))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        assert drops(lab) == 0
        lab.apply("function:f2", Change(up=False))
        killed = time.time()
        until(lambda: drops(lab) > 5)
        assert time.time() - killed < 0.5
        time.sleep(0.3)
        lab.apply("function:f2", Change(up=True))
        before = passed(lab, "f2")
        until(lambda: passed(lab, "f2") > before + 20)
        answers = echoes.answers()
    assert not [at for at in answers if killed + 0.2 < at < killed + 0.4], "nothing passes by"


@pytest.mark.measures
@pytest.mark.parametrize("fail", ["closed", "open"])
def test_a_function_that_dies_fails_its_chain_at_once(deploy: Deploy, fail: str) -> None:
    lab = deploy(planned(f"fail: {fail}"))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        os.kill(lab.daemons["f2"].pid, signal.SIGKILL)
        killed = time.time()
        until(lambda: lab.daemons["f2"].restarts == 1)
        before = passed(lab, "f2")
        until(lambda: passed(lab, "f2") > before + 20)
        answers = echoes.answers()
    if fail == "open":
        gaps = [b - a for a, b in pairwise(answers) if killed - 0.1 < a]
        assert max(gaps) < 0.2
        assert drops(lab) < 20, "those alone that were on their way"
    else:
        assert drops(lab) > 3


def test_a_lab_leaves_no_function_behind(deploy: Deploy) -> None:
    lab = deploy(planned("steering: nsh"))
    processes = [daemon.pid for daemon in lab.daemons.values()]
    assert len(processes) == 4
    lab.destroy()
    assert not namespace.names(f"hawser.{lab.name}.")
    assert not lab.directory.exists()
    until(lambda: not any(_runs(pid) for pid in processes))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
