"""Functions that know nothing of chains carry real traffic: programs of others, and the kernel.

client --in-- n1 --between-- n2          functions f1, g at n1, and what is tested at n2
              n1 --out-- server
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from driver_traffic import ping, tcp
from test_chains import SERVER, Echoes, passed, sniffed
from waiting import until

from hawser.control.client import DaemonClient
from hawser.control.model import FunctionCounters
from hawser.driver.base import DriverError
from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from hawser.overlay import network
from hawser.overlay.plan import NetworkPlan
from hawser.spec import load
from hawser.spec.workflow import Change

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]

WORKFLOW = """\
hawser: 1
name: bare
title: A chain
topology:
  nodes: [client, n1, n2, server]
  links:
    in: {ends: [client.eth, n1.in]}
    between: {ends: [n1.far, n2.near]}
    out: {ends: [n1.out, server.eth]}
functions:
  f1: {kind: forwarder, node: n1}
  g: {kind: forwarder, node: n1}
  x: FUNCTION
chains:
  c: {from: client, to: server, functions: [f1, x, g], CHAIN}
  MORE
measurements:
  rtt: {probe: ping, from: client, to: server}
"""

FILTER = """
    kind: proxy
    node: n2
    setup: [[nft, -f, rules.nft]]
    files:
      rules.nft: |
        table ip filter {
          chain forward {
            type filter hook forward priority 0; policy accept;
            ip daddr @server@ tcp dport 5300 counter reject with tcp reset
            ip daddr @server@ tcp dport 5301 counter reject
            ip daddr @server@ udp dport 5302 counter drop
          }
        }
"""
MASQUERADE = """
    kind: proxy
    node: n2
    setup: [[nft, -f, rules.nft]]
    files:
      rules.nft: |
        table ip nat {
          chain out { type nat hook postrouting priority 100; ip daddr @server@ masquerade; }
        }
"""
SLEEPER = "{kind: proxy, node: n2, command: [sleep, infinity]}"


def planned(function: str, chain: str = "steering: nsh", more: str = "") -> NetworkPlan:
    if "srv6" in chain:
        proxy = ", proxy: static" if function.startswith("{") else "\n    proxy: static"
        function = function.replace("node: n2", f"node: n2{proxy}")
    text = WORKFLOW.replace("FUNCTION", function).replace("CHAIN", chain).replace("MORE", more)
    return network(load("x.yaml", lambda _: text.encode()).variants[0].scenario)


def counters(lab: LocalLab, node: str) -> FunctionCounters:
    with DaemonClient(lab.daemons[node].control) as control:
        return control.function_counters()


def connect(client: NamespaceNode, port: int) -> tuple[int, str]:
    """Ask for a connection: exit code (124: no answer) and what was said."""
    asks = ["timeout", "1", "bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/{port}"]
    done = client.run(asks, timeout=60, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_filter_of_nft_is_a_function(deploy: Deploy, steering: str) -> None:
    lab = deploy(planned(FILTER, f"steering: {steering}"))
    client = lab.nodes["client"]
    assert ping(client, SERVER) == 3
    assert all(passed(lab, each) >= 6 for each in ("f1", "x", "g"))
    before = passed(lab, "g")
    assert "refused" in connect(client, 5300)[1], "the filter's reset goes the way back"
    connect(client, 5301)
    told = client.run(["nstat", "-az", "IcmpInDestUnreachs"], timeout=60).stdout
    assert int(told.split()[-2]) >= 1, "and so does its ICMP error"
    assert "refused" in connect(client, 5303)[1], "that is the server's"
    assert passed(lab, "g") - before < 6
    if steering == "nsh":
        drops = counters(lab, "n2").drops
        assert drops["unknown_flow"] == drops["several_paths"] == 0


@pytest.mark.measures
@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_masquerading_is_survived(deploy: Deploy, steering: str) -> None:
    lab = deploy(planned(MASQUERADE, f"steering: {steering}"))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    before = {each: passed(lab, each) for each in ("f1", "x", "g")}
    assert tcp(client, server, SERVER, 1)["bits_per_second"] > 20e6
    for each, earlier in before.items():
        assert passed(lab, each) - earlier > 1000, each
    own = "10.253.4.10" if steering == "srv6" else "10.253.0.10"
    seen = server.run(["ip", "-s", "route", "get", own], timeout=60).stdout
    assert own in seen
    if steering == "nsh":
        drops = counters(lab, "n2").drops
        assert drops["unknown_flow"] == drops["several_paths"] == 0


def test_what_two_paths_share_is_refused(deploy: Deploy) -> None:
    high = "match: {protocol: tcp, source_ports: [20000, 29999]}"
    second = f"d: {{from: client, to: server, functions: [x], {high}}}"
    lab = deploy(
        planned(
            MASQUERADE, "steering: nsh, match: {protocol: tcp, source_ports: [1, 9999]}", second
        )
    )
    client = lab.nodes["client"]
    assert connected_from(client, 1500) == "ConnectionRefusedError", "the only path to there"
    drops = counters(lab, "n2").drops
    assert drops["unknown_flow"] == drops["several_paths"] == 0
    assert connected_from(client, 20500) == "TimeoutError", "of two paths neither is guessed"
    assert counters(lab, "n2").drops["several_paths"] > 0
    lab.nodes["x"].run(["ping", "-c", "1", "-W", "1", "10.255.0.1"], timeout=60, check=False)
    assert counters(lab, "n2").drops["unknown_flow"] > 0


def connected_from(client: NamespaceNode, port: int) -> str:
    """Ask for a connection from a port; what came of it."""
    ask = f"import socket; socket.create_connection(('{SERVER}', 5300), 1, ('', {port}))"
    done = client.run(["python3", "-c", ask], timeout=60, check=False)
    return done.stderr.strip().splitlines()[-1].partition(":")[0]


NGINX = """
    kind: proxy
    node: n2
    setup: [[nft, -f, rules.nft]]
    command: [nginx, -p, ., -c, nginx.conf, -e, stderr]
    files:
      rules.nft: |
        table ip nat
        delete table ip nat
        table ip nat {
          chain in { type nat hook prerouting priority -100; tcp dport 80 redirect to :8080; }
        }
      nginx.conf: |
        daemon off; master_process off; pid nginx.pid; error_log stderr;
        events {}
        http {
          access_log off;
          server { listen 8080; location / { proxy_pass http://@server@; } }
        }
"""
WEB = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, h.ThreadingHTTPServer, port=80)"


@pytest.mark.measures
@pytest.mark.parametrize(
    ("steering", "fail"), [("nsh", "closed"), ("nsh", "open"), ("srv6", "closed")]
)
def test_nginx_ends_connections_and_begins_its_own(
    deploy: Deploy, steering: str, fail: str
) -> None:
    lab = deploy(planned(NGINX, f"steering: {steering}, fail: {fail}"))
    client, server = lab.nodes["client"], lab.nodes["server"]
    web = server.start(["python3", "-c", WEB])
    try:
        until(lambda: bool(server.run(["ss", "-Hltn", "src", ":80"], timeout=60).stdout))
        before = {each: passed(lab, each) for each in ("f1", "x", "g")}
        assert fetch(client) == "200 nginx"
        assert all(passed(lab, each) > before[each] for each in before)
        if steering == "nsh":
            drops = counters(lab, "n2").drops
            assert drops["unknown_flow"] == drops["several_paths"] == 0
        lab.apply("function:x", Change(up=False))
        time.sleep(0.2)
        assert fetch(client) == ("200 SimpleHTTP" if fail == "open" else "000 ")
        lab.apply("function:x", Change(up=True))
        until(lambda: fetch(client) == "200 nginx")
    finally:
        web.stop(0)


def fetch(client: NamespaceNode) -> str:
    """Ask the web server: the status, and by whom the answer is."""
    asks = ["curl", "-s", "-o", "/dev/null", "-m", "1", "-w", "%{http_code} %header{server}"]
    done = client.run([*asks, f"http://{SERVER}/"], timeout=60, check=False)
    return done.stdout.partition("/")[0]


@pytest.mark.measures
@pytest.mark.parametrize("fail", ["closed", "open"])
@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_killed_program_closes_or_opens_its_chain(
    deploy: Deploy, steering: str, fail: str
) -> None:
    lab = deploy(planned(SLEEPER, f"steering: {steering}, fail: {fail}"))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "x") > 20)
        lab.apply("function:x", Change(up=False))
        killed = time.time()
        time.sleep(0.2)
        before = lost(lab, steering)
        time.sleep(0.3)
        dropped = lost(lab, steering) - before
        lab.apply("function:x", Change(up=True))
        passed_before = passed(lab, "x")
        until(lambda: passed(lab, "x") > passed_before + 20)
        answers = echoes.answers()
    meanwhile = [at for at in answers if killed + 0.2 < at < killed + 0.5]
    if fail == "open":
        gaps = [b - a for a, b in pairwise(answers) if killed - 0.1 < a]
        assert max(gaps) < 0.2
        assert dropped == 0
    else:
        assert not meanwhile
        assert dropped > 5


def lost(lab: LocalLab, steering: str) -> int:
    """Packets that came as far as the function x and no further."""
    match steering:
        case "nsh":
            return counters(lab, "n2").drops["no_hop"]
        case "srv6":
            ways = counters(lab, "x-proxy").proxies
            return sum(way.toward.packets - way.returned.packets for way in ways)
        case _:
            port = lab.nodes["x"].counters()["f0"]
            return port["rx_packets"] - port["tx_packets"]


@pytest.mark.measures
def test_a_program_that_dies_is_started_again(deploy: Deploy) -> None:
    lab = deploy(planned(SLEEPER, "steering: routes"))
    client = lab.nodes["client"]
    assert ping(client, SERVER) == 3
    first = lab.programs["x"].pid
    kill_program(lab)
    until(lambda: lab.programs["x"].pid != first)
    until(lambda: ping(client, SERVER) == 3)
    assert lab.programs["x"].restarts == 1
    assert "x died and was started again" in " ".join(lab.faults())


def kill_program(lab: LocalLab) -> None:
    os.kill(lab.programs["x"].pid, signal.SIGKILL)


def test_a_setup_that_fails_says_so(deploy: Deploy) -> None:
    with pytest.raises(DriverError, match=r"function x: .*nft.*exit code"):
        deploy(planned("{kind: proxy, node: n2, setup: [[nft, add, nonsense]]}"))


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_router_forwards_but_what_its_routes_say(deploy: Deploy, steering: str) -> None:
    routes = f"[{{to: {SERVER}/32, action: prohibit}}]"
    lab = deploy(planned("{kind: router, node: n2}", f"steering: {steering}"))
    assert ping(lab.nodes["client"], SERVER) == 3
    assert passed(lab, "x") >= 6
    lab.destroy()
    lab = deploy(planned(f"{{kind: router, node: n2, routes: {routes}}}", f"steering: {steering}"))
    done = lab.nodes["client"].run(["ping", "-c", "1", "-W", "1", SERVER], timeout=60, check=False)
    assert "prohibited" in done.stdout + done.stderr or "filtered" in done.stdout + done.stderr


@pytest.mark.measures
@pytest.mark.parametrize("steering", ["nsh", "routes"])
def test_packets_between_two_functions_are_in_a_tunnel(deploy: Deploy, steering: str) -> None:
    text = WORKFLOW.replace("x: FUNCTION", PAIR).replace("[f1, x, g]", "[f1, enc, dec]")
    text = text.replace("CHAIN", f"steering: {steering}").replace("MORE", "")
    lab = deploy(network(load("x.yaml", lambda _: text.encode()).variants[0].scenario))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    with sniffed(lab.nodes["n1"], "far") as lines:
        assert tcp(client, server, SERVER, 1)["bits_per_second"] > 10e6
        seen = lines()
    assert sum("UDP-encap: ESP" in line for line in seen) > 100
    assert not [line for line in seen if SERVER in line and "10.255.0.1." in line and "ESP" in line]
    if steering == "nsh":
        lab.apply("function:dec", Change(up=False))
        time.sleep(0.2)
        assert ping(client, SERVER) == 0, "nothing goes past a tunnel that is down"
        assert counters(lab, "n1").drops["no_hop"] > 0
        lab.apply("function:dec", Change(up=True))
        until(lambda: ping(client, SERVER) == 3)


PAIR = """enc: {kind: ipsec, node: n1, peer: dec}
  dec: {kind: ipsec, node: n2, peer: enc}"""
