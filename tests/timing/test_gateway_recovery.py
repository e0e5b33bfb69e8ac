"""How soon gateways notice, recover and refuse. That they do is tested in tests/netns.

b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2  four paths of 10 Mbit/s, cut one by one
               wb -- 1b          2b -- wb                 (`Lab.paths` of lab/gateway/pair.py)

b1, b2, b3: gateways with a switch around a router        (lab/gateway/switch.py)

host -- b1 == four paths == b2 -- host                    (lab/gateway/tcp_proxy.py)

h1 -- gw1 ==a,b== internet ==a,b== gw2 -- h2, ...         (lab/plans/subflows.py)
"""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab.plan import NetworkPlan
from lab.gateway import tcp_proxy
from lab.gateway.encrypted import encrypted_pair, fingerprint, put
from lab.gateway.flood import flood, unauthenticated
from lab.gateway.groups import GROUP_PORTS, busiest, two_groups
from lab.gateway.pair import Gateway, Lab
from lab.gateway.quic import MTU, paths_of, quic_pair
from lab.gateway.switch import switched
from lab.gateway.switch_groups import cut_group_1, grouped, pings
from lab.gateway.tcp_proxy import (
    RESET,
    WAIT_FOR_RESET,
    chatting,
    connecting,
    listening,
    proxy_counters,
    said,
)
from lab.plans.subflows import check_subflows, five_branches, wide
from lab.traffic.transfer import OUTAGE, Transfer
from lab.waiting import until

pytestmark = pytest.mark.root

RATES = (10, 10, 10, 10)

_log = logging.getLogger(__name__)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def test_a_transfer_hardly_stops_when_paths_are_cut(lab: Lab) -> None:
    one, two = lab.paths(RATES).pair(subflows=4)
    transfer = Transfer(lab)
    time.sleep(1)
    mend = [lab.cut("1a", "2a"), lab.cut("1a", "2b"), lab.cut("1b", "2a")]
    until(lambda: one.subflows() == 1, "one path is left")
    time.sleep(0.5)
    for each in mend:
        each()
    time.sleep(0.5)
    assert transfer.end() <= OUTAGE
    until(lambda: one.subflows() == two.subflows() == 4, "all are back")


def test_a_transfer_hardly_stops_when_its_group_is_cut(lab: Lab) -> None:
    one, _ = two_groups(lab.paths(RATES))
    transfer = Transfer(lab)
    time.sleep(1)
    lab.cut(*GROUP_PORTS[busiest(one)])
    time.sleep(2)
    assert transfer.end() <= OUTAGE


@pytest.mark.parametrize("dark", [3, 12], ids=["silent", "given up"])
def test_a_quic_path_is_soon_back_with_its_mtu(lab: Lab, dark: float) -> None:
    """After 3 s without forwarding its connection still stands; after 10 s it was given up."""
    gateways = quic_pair(lab.paths(RATES), paths=len(RATES))
    transfer = Transfer(lab)
    mend = lab.cut("1a", "2a")
    until(lambda: any(left(each) for each in gateways), "the path is left")
    time.sleep(dark)
    mend()
    begin = time.monotonic()
    until(lambda: all(back(each) for each in gateways), "it is up and takes full packets")
    assert time.monotonic() - begin < 3
    transfer.end()


def left(gateway: Gateway) -> bool:
    return paths_of(gateway)[0]["state"] in ("degraded", "down")


def back(gateway: Gateway) -> bool:
    path = paths_of(gateway)[0]
    return bool(path["state"] == "up" and path["mtu"] == MTU)


@pytest.mark.parametrize("placement", ["round_robin", "flow_hash", "least_loaded", "throughput"])
def test_flows_soon_leave_a_group_that_fails(lab: Lab, placement: str) -> None:
    switched(lab, (1, 2, 3))
    grouped(lab, placement=placement)
    lab.iperf("-u", "-b", "100K", "-P", "32", seconds=1)
    cut_group_1(lab)
    start = time.monotonic()
    until(lambda: pings(lab), "pings pass again")
    assert time.monotonic() - start < 6


@pytest.mark.parametrize("by", ["list", "file"])
@pytest.mark.parametrize("kind", ["quic", "mptcp"])
def test_who_is_revoked_is_out_at_once(lab: Lab, kind: str, by: str) -> None:
    one, two, files = encrypted_pair(lab.direct(), kind)
    shown = fingerprint(files["b1"]["certificate"])
    listed = lab.folder / "revoked.txt"
    listed.write_text(f"{shown}\n")
    begin = time.monotonic()
    gone = {"revoked": [shown]} if by == "list" else {"revoked_file": str(listed)}
    assert put(two, **gone)[0] == 200
    until(lambda: not two.up(), "the connection has ended")
    until(lambda: not one.up(), "the other end knows")
    assert time.monotonic() - begin < 3


def test_peers_hardly_notice_a_flood_of_forged_initials(lab: Lab) -> None:
    """10 000 a second, to one of two addresses: goodput, and the time until a peer connects."""
    one, two = quic_pair(lab.paths(RATES), paths=len(RATES))

    def goodput() -> float:
        return float(lab.iperf(seconds=4)["end"]["sum_received"]["bits_per_second"])

    goodput()
    undisturbed, memory = goodput(), two.memory()[0]
    sender = flood(lab, 0, "i2a", "198.18.3.2")
    disturbed = goodput()
    one.stop(signal.SIGKILL)
    one.start()
    begin = time.monotonic()
    until(lambda: one.up() and one.subflows() == len(RATES), "all paths are up")
    connected = time.monotonic() - begin
    grown = two.memory()[1] - memory
    asked = unauthenticated(two)["retries"]
    _log.info("goodput %.3f, connected in %.2f s", disturbed / undisturbed, connected)
    _log.info("memory + %d KiB, %d times Retry", grown, asked)
    assert sender.poll() is None
    assert disturbed / undisturbed > 0.9
    assert connected < 1
    assert grown < 32 << 10


@pytest.mark.parametrize("number", [1, 2])
def test_packets_pass_soon_after_a_restart(lab: Lab, number: int) -> None:
    gateways = quic_pair(lab.paths(RATES), paths=len(RATES))
    gateways[number - 1].stop(signal.SIGKILL)
    gateways[number - 1].start()
    begin = time.monotonic()
    ping = ("ping", "-c1", "-W0.1", "10.2.0.1")
    until(lambda: "1 received" in lab.at(1, *ping, check=False), "packets pass")
    passed = time.monotonic() - begin
    _log.info("packets pass %.2f s after the restart of gateway %d", passed, number)
    assert passed < 1


@pytest.mark.parametrize("by", ["server", "client"])
def test_the_tcp_proxy_carries_resets_at_once(lab: Lab, by: str) -> None:
    tcp_proxy.gateways(lab)
    codes = ("stream.sendall(b'x')\ntime.sleep(0.3)" + RESET, WAIT_FOR_RESET)
    of_server, of_client = codes if by == "server" else codes[::-1]
    server, client = listening(lab, of_server), connecting(lab, of_client)
    begin = time.monotonic()
    assert said(client if by == "server" else server) == "reset"
    assert time.monotonic() - begin < 5


def test_the_tcp_proxy_ends_connections_of_a_silent_peer_in_time(lab: Lab) -> None:
    """After ten seconds of silence on all paths."""
    _, two = tcp_proxy.gateways(lab)
    _, client = chatting(lab)
    begin = time.monotonic()
    two.stop(signal.SIGKILL)
    assert said(client).splitlines()[-1] == "reset"
    assert time.monotonic() - begin < 20


def test_the_tcp_proxy_soon_goes_on_without_a_path(lab: Lab) -> None:
    """12 MB: 2.5 s over four paths, 3.4 s over three; 10 s if it waited for the path."""
    one, _ = tcp_proxy.gateways(lab)
    begin = time.monotonic()
    server = listening(lab, tcp_proxy.RECEIVE + "print(seen.hexdigest())")
    client = connecting(lab, tcp_proxy.SEND, "12", stdin=subprocess.DEVNULL)
    until(lambda: proxy_counters(one)["sent_bytes"] > 2e6, "the transfer runs")
    lab.cut("1a", "2a")
    said(client)
    assert said(server) == tcp_proxy.digest_of(12)
    assert time.monotonic() - begin < 9


@pytest.mark.parametrize("plan", [five_branches, wide])
def test_all_subflows_are_there_soon(
    deploy: Callable[[NetworkPlan], LocalLab], plan: Callable[[], NetworkPlan]
) -> None:
    made = plan()
    lab = deploy(made)
    begin = time.monotonic()
    check_subflows(lab, made)
    assert time.monotonic() - begin < 5
