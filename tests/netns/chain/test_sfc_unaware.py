"""SFC-unaware functions carry real traffic: other people's programs, and the kernel itself.

   client --in-- n1 --between-- n2        functions f1 and g are at n1, the tested one, x, is at n2;
                 |                        a packet goes f1, x, g (drawn in lab/plans/chains.py)
   server --out--+

With SRv6 a node for the SFC proxy stands between n2 and x, and x has a port on each side.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from documents import Document
from hawser.driver.base import DriverError
from hawser.driver.local import LocalLab
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec.workflow import Change
from lab.plans.chains import (
    CLIENT,
    FILTER,
    MASQUERADE,
    NGINX,
    SERVER,
    SLEEPER,
    chain_with,
    chain_with_tunnel,
)
from lab.traffic.chains import (
    Echoes,
    counters,
    drop_all,
    kernel_counts,
    lost,
    missed,
    pass_by,
    passed,
    sniffed,
)
from lab.traffic.counted import deliver, deliver_between
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = pytest.mark.root

Deploy = Callable[[NetworkPlan], LocalLab]

BYTES = 4_000_000
"""Of a transfer: more than 1000 packets."""
WEB = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, h.ThreadingHTTPServer, port=80)"


def connect(client: NamespaceNode, port: int) -> str:
    """Open a connection that is accepted or refused; return bash's error output."""
    asks = ["bash", "-c", f"exec 3<>/dev/tcp/{SERVER}/{port}"]
    return client.run(asks, timeout=60, check=False).stderr


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_filter_of_nft_is_a_function(deploy: Deploy, steering: str) -> None:
    lab = deploy(chain_with(FILTER, steering=steering))
    client = lab.nodes["client"]
    assert ping(client, SERVER) == 3
    assert all(passed(lab, each) >= 6 for each in ("f1", "x", "g"))
    before = passed(lab, "g")
    assert "refused" in connect(client, 5300), "the filter's reset takes the reverse path"
    connect(client, 5301)
    assert kernel_counts(client.namespace, "Icmp")["InDestUnreachs"] >= 1, (
        "and so does its ICMP error"
    )
    assert "refused" in connect(client, 5303), "that refusal is the server's"
    assert passed(lab, "g") - before < 6
    if steering == "nsh":
        drops = counters(lab, "n2").drops
        assert drops["unknown_flow"] == drops["several_paths"] == 0


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_masquerading_is_survived(deploy: Deploy, steering: str) -> None:
    lab = deploy(chain_with(MASQUERADE, steering=steering))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    before = {each: passed(lab, each, "bytes") for each in ("f1", "x", "g")}
    own = "10.253.4.10" if steering == "srv6" else "10.253.0.10"
    assert deliver_between(client.namespace, server.namespace, SERVER, BYTES) == own
    for each, earlier in before.items():
        assert passed(lab, each, "bytes") - earlier > BYTES, each
    if steering == "nsh":
        drops = counters(lab, "n2").drops
        assert drops["unknown_flow"] == drops["several_paths"] == 0


def test_what_two_paths_share_is_refused(deploy: Deploy) -> None:
    low = {"protocol": "tcp", "source_ports": [1, 9999]}
    high = {"protocol": "tcp", "source_ports": [20000, 29999]}
    second = {"from": "client", "to": "server", "functions": ["x"], "match": high}
    lab = deploy(chain_with(MASQUERADE, match=low, more={"d": second}))
    client = lab.nodes["client"]
    assert connected_from(client, 1500) == "ConnectionRefusedError", "the only path to there"
    drops = counters(lab, "n2").drops
    assert drops["unknown_flow"] == drops["several_paths"] == 0
    asked = connected_from(client, 20500, patience=1)
    assert asked == "TimeoutError", "neither of two possible paths is guessed"
    until(lambda: counters(lab, "n2").drops["several_paths"] > 0)
    lab.nodes["x"].run(["ping", "-c", "1", "-W", "1", CLIENT], timeout=60, check=False)
    until(lambda: counters(lab, "n2").drops["unknown_flow"] > 0)


def connected_from(client: NamespaceNode, port: int, patience: int = 60) -> str:
    """Open a connection from a port; return the error's name."""
    connect = f"socket.create_connection(('{SERVER}', 5300), {patience}, ('', {port}))"
    ask = ["python3", "-c", f"import socket; {connect}"]
    done = client.run(ask, timeout=120, check=False)
    return done.stderr.strip().splitlines()[-1].partition(":")[0]


@pytest.mark.parametrize(
    ("steering", "fail"), [("nsh", "closed"), ("nsh", "open"), ("srv6", "closed")]
)
def test_nginx_ends_connections_and_begins_its_own(
    deploy: Deploy, steering: str, fail: str
) -> None:
    lab = deploy(chain_with(NGINX, steering=steering, fail=fail))
    client, server = lab.nodes["client"], lab.nodes["server"]
    web = server.start(["python3", "-c", WEB])
    try:
        until(lambda: bool(server.run(["ss", "-Hltn", "src", ":80"], timeout=60).stdout))
        before = {each: passed(lab, each) for each in ("f1", "x", "g")}
        until(lambda: fetch(client) == "200 nginx")
        assert all(passed(lab, each) > before[each] for each in before)
        if steering == "nsh":
            drops = counters(lab, "n2").drops
            assert drops["unknown_flow"] == drops["several_paths"] == 0
        lab.apply("function:x", Change(up=False))
        otherwise = "200 SimpleHTTP" if fail == "open" else "000 "
        until(lambda: fetch(client) == otherwise)
        assert fetch(client) == otherwise, "and so it stays"
        lab.apply("function:x", Change(up=True))
        until(lambda: fetch(client) == "200 nginx")
    finally:
        web.stop(0)


def fetch(client: NamespaceNode) -> str:
    """Request from the web server; return the status and the server's name."""
    asks = ["curl", "-s", "-o", "/dev/null", "-m", "5", "-w", "%{http_code} %header{server}"]
    done = client.run([*asks, f"http://{SERVER}/"], timeout=60, check=False)
    return done.stdout.partition("/")[0]


@pytest.mark.parametrize("fail", ["closed", "open"])
@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_killed_program_closes_or_opens_its_chain(
    deploy: Deploy, steering: str, fail: str
) -> None:
    lab = deploy(chain_with(SLEEPER, steering=steering, fail=fail))
    with Echoes(lab) as echoes:
        until(lambda: passed(lab, "x") > 20)
        lab.apply("function:x", Change(up=False))
        if fail == "open":
            pass_by(lab, "x", echoes, lambda: lost(lab, steering))
        else:
            drop_all(lab, "x", echoes, lambda: missed(lab))
        lab.apply("function:x", Change(up=True))
        before = passed(lab, "x")
        until(lambda: ping(lab.nodes["client"], SERVER) == 3 and passed(lab, "x") >= before + 6)
        if fail == "open":
            echoes.all_answered(echoes.answers_after(echoes.sent()))


def test_a_program_that_dies_is_started_again(deploy: Deploy) -> None:
    lab = deploy(chain_with(SLEEPER, steering="routes"))
    client = lab.nodes["client"]
    assert ping(client, SERVER) == 3
    first = lab.programs["x"].pid
    kill_program(lab)
    until(lambda: lab.programs["x"].pid != first)
    until(lambda: ping(client, SERVER) == 3)
    assert lab.programs["x"].restarts == 1
    assert "x died and was restarted" in " ".join(lab.faults())


def kill_program(lab: LocalLab) -> None:
    os.kill(lab.programs["x"].pid, signal.SIGKILL)


def test_a_setup_that_fails_says_so(deploy: Deploy) -> None:
    with pytest.raises(DriverError, match=r"function x: .*nft.*exit code"):
        deploy(chain_with({"kind": "proxy", "node": "n2", "setup": [["nft", "add", "nonsense"]]}))


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
def test_a_router_forwards_but_what_its_routes_say(deploy: Deploy, steering: str) -> None:
    router: Document = {"kind": "router", "node": "n2"}
    lab = deploy(chain_with(router, steering=steering))
    assert ping(lab.nodes["client"], SERVER) == 3
    assert passed(lab, "x") >= 6
    lab.destroy()
    routes = [{"to": f"{SERVER}/32", "action": "prohibit"}]
    lab = deploy(chain_with({**router, "routes": routes}, steering=steering))
    told = ["ping", "-c", "1", "-W", "60", SERVER]
    done = lab.nodes["client"].run(told, timeout=120, check=False)
    assert "prohibited" in done.stdout + done.stderr or "filtered" in done.stdout + done.stderr


@pytest.mark.parametrize("steering", ["nsh", "routes"])
def test_packets_between_two_functions_are_in_a_tunnel(deploy: Deploy, steering: str) -> None:
    lab = deploy(chain_with_tunnel(steering))
    client, server = lab.nodes["client"], lab.nodes["server"]
    assert ping(client, SERVER) == 3
    far = lab.nodes["n1"], "far"
    with sniffed(*far, "-Q out") as outward, sniffed(*far, "-Q in") as inward:
        deliver(client, server, SERVER, 1_000_000)
        until(lambda: sealed(outward()) > 1_000_000, "all of it is sealed on its way to dec")
        until(lambda: sealed(inward()) > 0, "so are the acknowledgements on theirs to enc")
        assert not [line for line in outward() if f" {CLIENT}." in line.partition(" > ")[0]]
        assert not [line for line in inward() if f" {SERVER}." in line.partition(" > ")[0]]
    if steering == "nsh":
        lab.apply("function:dec", Change(up=False))
        until(lambda: ping(client, SERVER) == 0)
        came, before = (
            kernel_counts(server.namespace, "Icmp")["InEchos"],
            counters(lab, "n1").drops["no_hop"],
        )
        assert ping(client, SERVER) == 0, "nothing bypasses a tunnel that is down"
        assert kernel_counts(server.namespace, "Icmp")["InEchos"] == came
        assert counters(lab, "n1").drops["no_hop"] == before + 3
        lab.apply("function:dec", Change(up=True))
        until(lambda: ping(client, SERVER) == 3)


def sealed(lines: list[str]) -> int:
    """Bytes in packets of ESP; the kernel may show several at once."""
    return sum(int(line.rpartition("length ")[2]) for line in lines if "UDP-encap: ESP" in line)
