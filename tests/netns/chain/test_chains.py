"""Chains of a workflow steer real traffic by NSH, SRv6 and routes, and fail open or closed.

client --in-- n1 --between-- n2        functions f1 and f3 are at n1, f2 is at n2, a node each
              |                        (drawn in lab/plans/chains.py)
server --out--+
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import pytest

from documents import Document, with_
from hawser.driver.capabilities import missing
from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode, namespace
from hawser.overlay.lab.chain.layout import OWN_PORT
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe.passive import Passive
from hawser.spec.workflow import Change
from lab.plans.chains import SERVER, WORKFLOW, behind_proxy, chain, far
from lab.traffic.chains import (
    Echoes,
    counters,
    drop_all,
    no_hop,
    pass_by,
    passed,
    ping_all,
    sniffed,
)
from lab.traffic.counted import deliver, deliver_between, kernel_rate, limit
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]

BYTES = 4_000_000
"""Of a transfer: more than 1000 packets."""


def delivered_through(lab: LocalLab, target: str, *functions: str) -> None:
    """Send bytes from client to server, and check that all of them passed these functions."""
    before = {each: passed(lab, each, "bytes") for each in functions}
    deliver(lab.nodes["client"], lab.nodes["server"], target, BYTES)
    for each, earlier in before.items():
        assert passed(lab, each, "bytes") - earlier > BYTES, each


@pytest.mark.parametrize(
    "between", [{}, {"rate": "200 Mbit/s", "delay": "2 ms"}], ids=["plain", "far"]
)
@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_tcp_passes_every_function_both_ways(
    deploy: Deploy, steering: str, between: Document
) -> None:
    lab = deploy(chain(document=far(**between), steering=steering))
    client = lab.nodes["client"]
    assert ping(client, SERVER) == 3
    assert passed(lab, "f1") >= 6
    assert passed(lab, "f2") >= 6
    delivered_through(lab, SERVER, "f1", "f2")
    if between:
        text = client.run(["ping", "-c", "3", "-i", "0.05", "-q", SERVER], timeout=60).stdout
        least = float(text.rpartition("= ")[2].partition("/")[0])
        assert least >= 8, "each way crosses the far link twice, 2 ms each time"


def test_a_rate_holds_for_what_programs_steer(deploy: Deploy) -> None:
    lab = deploy(chain(document=far(rate="20 Mbit/s"), steering="nsh"))
    there = limit(lab.nodes["n1"], "link:between:forward")
    back = limit(lab.nodes["n2"], "link:between:reverse")
    delivered_through(lab, SERVER, "f1", "f2")
    for each in (there, back):
        each.holds(20e6)
        assert each.bytes() > BYTES, "all of it crossed the link to f2 and back"
    for node, direction in (("n1", "forward"), ("n2", "reverse")):
        assert kernel_rate(lab.nodes[node], f"link:between:{direction}") == 20e6


@pytest.mark.parametrize("proxy", ["static", "dynamic", "masquerading"])
def test_functions_behind_proxies_are_passed(deploy: Deploy, proxy: str) -> None:
    mode = "encap.red" if proxy == "dynamic" else "encap"
    plan = chain(document=behind_proxy(proxy), steering="srv6", srv6={"mode": mode})
    lab = deploy(plan)
    assert ping(lab.nodes["client"], SERVER) == 3
    counted = counters(lab, "f1-proxy")
    assert [(p.toward.packets, p.returned.packets) for p in counted.proxies] == [(3, 3)] * 2
    assert sum(counted.drops.values()) == 0
    delivered_through(lab, SERVER, "f1", "f2")


@pytest.mark.parametrize(
    ("proxy", "mode"),
    [(None, "encap"), ("static", "encap"), (None, "insert"), ("masquerading", "insert")],
)
def test_ipv6_is_led_too(deploy: Deploy, proxy: str | None, mode: str) -> None:
    document = behind_proxy(proxy) if proxy else WORKFLOW
    lab = deploy(chain(document=document, steering="srv6", srv6={"ipv6": True, "mode": mode}))
    client, server = lab.nodes["client"], lab.nodes["server"]
    (address,) = (a.ip for a in server.plan.interfaces[0].addresses if a.version == 6)
    with sniffed(lab.nodes["n1"], "far", "ip6 proto 43") as lines:

        def requests() -> list[str]:
            return [line for line in lines() if "echo request" in line]

        assert ping(client, str(address)) == 3
        until(lambda: len(requests()) >= 3, "tcpdump tells of every request")
        assert all((") IP6" in line) == (mode == "encap") for line in requests()), requests()
    assert passed(lab, "f1") >= 3
    assert passed(lab, "f2") >= 6
    assert ping(client, SERVER) == 3
    delivered_through(lab, str(address), "f1", "f2")


@pytest.mark.parametrize(
    "how",
    [
        {"function": "End.X"},
        {"function": "End.X", "mode": "encap.red"},
        {"function": "End.X", "mode": "insert"},
        {"last": "End.DT"},
        {"last": "End.DT46"},
        {"last": "End.DT46", "function": "End.X", "mode": "encap.red"},
    ],
    ids=lambda how: ", ".join(f"{key}: {value}" for key, value in how.items()),
)
def test_segments_do_what_a_workflow_asks_for(deploy: Deploy, how: Document) -> None:
    plan = chain(("f1", "f3", "f2"), steering="srv6", srv6={"ipv6": True, **how})
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
        assert ("seg6local" in knows) == ("End.X" not in how.values())


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_match_leads_only_what_fits(deploy: Deploy, steering: str) -> None:
    match = {"protocol": "tcp", "destination_ports": [5000, 5010]}
    lab = deploy(chain(steering=steering, match=match))
    client = lab.nodes["client"]
    before = passed(lab, "f2")
    assert ping_all(client.namespace, SERVER, 10) == 10
    for port in [4999, 5011] * 5:
        assert _refused(client, port)
    assert passed(lab, "f2") - before < 10, "neither echoes nor segments, perhaps neighbours"
    before = passed(lab, "f2")
    for port in (5000, 5010):
        assert _refused(client, port)
    assert passed(lab, "f2") - before >= 4


def _refused(client: NamespaceNode, port: int) -> bool:
    """Connect to a closed port: one segment each way."""
    connect = ["bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/{port}"]
    return "refused" in client.run(connect, timeout=60, check=False).stderr


def test_a_firewall_of_the_workflow_has_its_rules(deploy: Deploy) -> None:
    lab = deploy(chain(["fw"], steering="nsh"))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    before = passed(lab, "fw", "bytes")
    deliver_between(client.namespace, server.namespace, SERVER, BYTES, port=5201)
    assert passed(lab, "fw", "bytes") - before > BYTES
    assert counters(lab, "fw").drops["denied"] == 0
    connect = ["timeout", "1", "bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/5202"]
    assert client.run(connect, timeout=60, check=False).returncode == 124
    until(lambda: counters(lab, "fw").drops["denied"] > 0)


def test_the_rules_of_a_firewall_are_set_over_https(deploy: Deploy) -> None:
    """With the lab's certificates, by whoever has the token."""
    document = with_(WORKFLOW, "functions.fw.rest", 8443)
    lab = deploy(chain(["fw"], document, steering="nsh"))
    client, keys = lab.nodes["client"], lab.directory / "pki"
    assert ping(client, SERVER) == 3
    token = (keys / "fw.token").read_text().strip()
    assert ((keys / "fw.token").stat().st_mode & 0o777) == 0o600
    url = ["--cacert", str(keys / "ca.pem"), "--resolve", "fw:8443:127.0.0.1"]
    curl = [
        "curl",
        "-sS",
        "-w",
        "%{http_code}",
        *url,
        "https://fw:8443/v1/rules",
        "-o",
        "/dev/null",
    ]
    assert lab.nodes["fw"].run(curl, timeout=60).stdout == "401"
    change = ["-H", f"authorization: Bearer {token}", "-H", "content-type: application/json"]
    change += ["-X", "PUT", "-d", '{"rules": [{"protocol": 1, "action": "deny"}]}']
    assert lab.nodes["fw"].run([*curl, *change], timeout=60).stdout == "200"
    assert ping(client, SERVER) == 0
    assert counters(lab, "fw").drops["denied"] > 0


def test_what_functions_count_is_told(deploy: Deploy) -> None:
    lab = deploy(chain(steering="nsh"))
    with Passive(lab) as passive:
        assert ping(lab.nodes["client"], SERVER) == 3
        samples = {(s.subject, s.metric): s.value for s in passive.finish()}
    assert samples["daemon:f1", "served_packets"] == 6
    assert samples["chain:c:forward", "classified_packets"] == 3
    assert samples["chain:c:reverse:n2:f2", "led_packets"] == 3
    assert samples["chain:c:forward:n2:end", "led_packets"] == 3
    assert samples["daemon:n1", "drop_no_hop"] == 0


def test_each_core_has_a_queue_of_its_own(deploy: Deploy) -> None:
    document = with_(WORKFLOW, "functions.f1.queues", 2)
    lab = deploy(chain(document=document, steering="nsh"))
    for core in (0, 1):
        there = ["taskset", "-c", str(core), "ping", "-c", "50", "-l", "50", "-i", "60", "-W", "60"]
        assert " 0% packet loss" in lab.nodes["client"].run([*there, SERVER], timeout=120).stdout
    counted = lab.nodes["f1"].run(["ethtool", "-S", OWN_PORT], timeout=60).stdout
    by_queue = [int(n) for n in re.findall(r"rx_queue_\d+_xdp_packets: (\d+)", counted)]
    assert len(by_queue) == 2
    assert min(by_queue) >= 50


def test_a_killed_function_opens_its_chain(deploy: Deploy) -> None:
    lab = deploy(chain(fail="open"))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        lab.apply("function:f2", Change(up=False))
        pass_by(lab, "f2", echoes, lambda: no_hop(lab))
        assert passed(lab, "f1") > 20
        lab.apply("function:f2", Change(up=True))
        before = passed(lab, "f2")
        until(lambda: passed(lab, "f2") > before + 20)
        echoes.all_answered(echoes.answers_after(echoes.sent()))
        dropped = no_hop(lab)
        assert dropped <= echoes.unanswered(), "each was dropped once"
    assert lab.daemons["f2"].restarts == 0


def test_a_killed_function_closes_its_chain(deploy: Deploy) -> None:
    lab = deploy(chain(fail="closed"))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        assert no_hop(lab) == 0
        lab.apply("function:f2", Change(up=False))
        drop_all(lab, "f2", echoes, lambda: no_hop(lab))
    lab.apply("function:f2", Change(up=True))
    before = passed(lab, "f2")
    until(lambda: ping(lab.nodes["client"], SERVER) == 3)
    assert passed(lab, "f2") - before >= 6
    assert lab.daemons["f2"].restarts == 0


@pytest.mark.parametrize("fail", ["closed", "open"])
def test_a_function_that_dies_fails_its_chain_at_once(deploy: Deploy, fail: str) -> None:
    lab = deploy(chain(fail=fail))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "f2") > 20)
        die(lab, "f2", 1)
        if fail == "closed":  # it is restarted soon; after further deaths, later
            deaths = iter(range(2, 10))
            until(lambda: no_hop(lab) > 3 or die(lab, "f2", next(deaths)))
        before = passed(lab, "f2")
        until(lambda: passed(lab, "f2") > before + 20)
        echoes.all_answered(echoes.answers_after(echoes.sent()))
        dropped = no_hop(lab)
        assert dropped <= echoes.unanswered(), "each was dropped once"


def die(lab: LocalLab, function: str, deaths: int) -> None:
    """Kill a function, and wait until it has been restarted as often as it has died."""
    os.kill(lab.daemons[function].pid, signal.SIGKILL)
    until(lambda: lab.daemons[function].restarts == deaths)


def test_a_lab_leaves_no_function_behind(deploy: Deploy) -> None:
    lab = deploy(chain(steering="nsh"))
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
