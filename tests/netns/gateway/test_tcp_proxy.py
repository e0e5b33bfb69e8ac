"""The TCP proxy of the `quic` transport: real hosts behind two gateways, over four paths.

   number 3 (client)      number 1                         number 2            number 4 (server)
  +--------------+     +------------------+             +------------------+     +--------------+
  | lan 10.1.0.2 |-----| lan 10.1.0.1  gw |== 4 paths ==| gw  lan 10.2.0.1 |-----| lan 10.2.0.2 |
  +--------------+     +------------------+             +------------------+     +--------------+

The paths are drawn in lab/gateway/pair.py; each carries 10 Mbit/s.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gateway.pair import Lab
from lab.gateway.tcp_proxy import (
    ADDRESSES,
    CLIENT,
    CONNECT,
    CONNECT6,
    IPV6,
    LISTEN,
    PORT,
    RECEIVE,
    RESET,
    SEND,
    SEND_UNTIL_TOLD,
    SERVER,
    WAIT_FOR_RESET,
    chatting,
    connecting,
    digest_of,
    flows,
    gateways,
    line,
    listening,
    proxy_counters,
    rules,
    said,
    start,
    transfer,
    wait_for_paths,
)
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


@pytest.mark.parametrize("ipv6", [False, True])
def test_both_ends_see_each_other_and_half_close(lab: Lab, *, ipv6: bool) -> None:
    """The server answers only after the client has ended, with more than it received."""
    one, two = gateways(lab, ipv6=ipv6)
    answer = SEND + "print(json.dumps([client[:2], stream.getsockname()[:2], seen.hexdigest()]))"
    server = listening(lab, RECEIVE + answer, "6", family="AF_INET6" if ipv6 else "AF_INET")
    told = "print(json.dumps([stream.getsockname()[:2], seen.hexdigest()]))"
    connect = CONNECT6 if ipv6 else CONNECT
    client = start(lab, CLIENT, connect + SEND + RECEIVE + told, "3")
    size = 251 * 4000
    name, back = json.loads(said(client))
    seen, own, there = json.loads(said(server))
    addresses = IPV6 if ipv6 else ADDRESSES
    assert (seen, own) == (name, [addresses[SERVER], PORT])
    assert name[0] == addresses[CLIENT]
    assert there == digest_of(3)
    assert back == digest_of(6)
    until(lambda: flows(one) == flows(two) == 0, "the connection has ended")
    for gateway, sent, received in ((one, 3, 6), (two, 6, 3)):
        counters = proxy_counters(gateway)
        assert (counters["opened"], counters["ended"], counters["reset"]) == (1, 1, 0)
        assert counters["sent_bytes"] == sent * size
        assert counters["received_bytes"] == received * size


REFUSED = """
try:
    stream = socket.create_connection(("10.2.0.2", port), 120)
    while stream.recv(1 << 16):
        pass
    print("ended")
except ConnectionResetError:
    print("reset")
"""
"""The reset may come before the client's kernel says that it is connected, or after."""


def test_resets_are_carried(lab: Lab) -> None:
    """In both directions; a connection that a port refuses comes back as a reset, too."""
    one, two = gateways(lab)
    for here, there in ((listening, connecting), (connecting, listening)):
        codes = {here: "stream.sendall(b'x')\ntime.sleep(0.3)" + RESET, there: WAIT_FOR_RESET}
        server = listening(lab, codes[listening])
        client = connecting(lab, codes[connecting])
        assert said(server if there is listening else client) == "reset"
    assert said(start(lab, CLIENT, REFUSED)) == "reset"
    until(lambda: flows(one) == flows(two) == 0, "all have ended")
    assert proxy_counters(one)["reset"] == 3
    assert (proxy_counters(two)["reset"], proxy_counters(two)["ended"]) == (3, 0)


PUSH = """
stream.setblocking(False)
sent, quiet = 0, time.monotonic()
while time.monotonic() - quiet < 2:
    try:
        sent += stream.send(bytes(1 << 16))
        quiet = time.monotonic()
    except BlockingIOError:
        time.sleep(0.01)
print(sent)
stream.shutdown(socket.SHUT_WR)
sys.stdin.readline()
"""


def test_a_reader_that_stops_stops_the_sender(lab: Lab) -> None:
    """Buffers of the connection and the gateways are bounded, others go on, nothing is lost."""
    one, two = gateways(lab)
    before = one.memory()[1], two.memory()[1]
    reads = """
        sys.stdin.readline()
        total = 0
        while part := stream.recv(1 << 16):
            total += len(part)
        print(total)
    """
    server = listening(lab, reads, stdin=subprocess.PIPE)
    client = connecting(lab, PUSH, stdin=subprocess.PIPE)
    sent = int(line(client))
    # the kernels' buffers at both hosts and gateways, and a window between these
    assert sent < 40 << 20
    # 12 MiB: a window of at most 8 MiB, and what is on its way
    grown = [gateway.memory()[1] - was for gateway, was in zip((one, two), before, strict=True)]
    assert max(grown) < 12 << 10
    assert transfer(lab, port=PORT + 1) == digest_of(1)
    until(lambda: flows(one) == 1, "the other has ended")
    assert server.stdin
    server.stdin.write("\n")
    server.stdin.flush()
    assert int(said(server)) == sent


def test_a_path_that_is_cut_costs_time_alone(lab: Lab) -> None:
    """The transfer goes on over the other three; what the path had in flight is sent again."""
    one, _ = gateways(lab)
    server = listening(lab, RECEIVE + "print(seen.hexdigest())")
    client = connecting(lab, SEND_UNTIL_TOLD, stdin=subprocess.PIPE)
    until(lambda: proxy_counters(one)["sent_bytes"] > 2e6, "the transfer runs")
    lab.cut("1a", "2a")
    until(
        lambda: proxy_counters(one)["retransmitted"] > 0,
        "what was in flight on the path is sent again",
    )
    carried = proxy_counters(one)["sent_bytes"]
    until(lambda: proxy_counters(one)["sent_bytes"] > carried + 2e6, "the others carry")
    sent, _ = client.communicate("\n", timeout=PATIENCE)
    assert said(server) == sent.strip()
    assert proxy_counters(one)["reset"] == 0


def left_behind(lab: Lab) -> str:
    """What the proxy has left in the namespace of gateway 1."""
    rules = lab.at(1, "nft", "list", "ruleset") + lab.at(1, "ip", "rule")
    route = lab.at(1, "ip", "route", "show", "table", "18508", check=False)
    rules += lab.at(1, "ip", "-6", "rule")
    route += lab.at(1, "ip", "-6", "route", "show", "table", "18508", check=False)
    return "\n".join(each for each in (rules + route).splitlines() if "hawser_lane" in each
                     or "18508" in each or "local default" in each)  # fmt: skip


def test_a_gateway_that_dies_resets_and_leaves_nothing(lab: Lab) -> None:
    """Killed: its own ends are reset at once, the peer's when it restarts, and all works again.

    Stopped: the same at once on both sides, and nothing of it is left.
    """
    one, two = gateways(lab, ipv6=True)
    server, client = chatting(lab)
    one.stop(signal.SIGKILL)
    assert said(client).splitlines()[-1] == "reset"
    assert left_behind(lab), "killed, it could not clean up"
    one.start()
    assert said(server).splitlines()[-1] == "reset"
    wait_for_paths(one, two)
    until(lambda: proxy_counters(two)["reset"] == 1, "it is counted once")
    server, client = chatting(lab)
    one.stop()
    assert said(client).splitlines()[-1] == "reset"
    assert said(server).splitlines()[-1] == "reset"
    assert not left_behind(lab)


def test_a_peer_that_falls_silent_ends_connections(lab: Lab) -> None:
    """It sends no reset: 10 seconds of silence on all paths end them."""
    _, two = gateways(lab)
    server, client = chatting(lab)
    two.stop(signal.SIGKILL)
    assert said(server).splitlines()[-1] == "reset"
    assert said(client).splitlines()[-1] == "reset"


def test_a_peer_without_the_proxy_gets_datagrams(lab: Lab) -> None:
    one, two = gateways(lab, proxies=(True, False))
    assert transfer(lab) == digest_of(1)
    assert one.group()["sent"]["bytes"] > 1e6
    assert proxy_counters(one)["opened"] == proxy_counters(two)["opened"] == 0


def test_only_connections_of_hosts_are_proxied(lab: Lab) -> None:
    """Those from and to the gateways themselves, and all that is not TCP, go as datagrams."""
    one, _ = gateways(lab, ipv6=True)
    for addresses in (ADDRESSES, IPV6):
        ping = ("ping", "-c1", "-W1", addresses[SERVER])
        until(lambda ping=ping: "1 received" in lab.at(CLIENT, *ping, check=False), "echoes pass")
    for family, own in (("AF_INET", "10.2.0.1"), ("AF_INET6", "2001:db8:2::1")):
        listen = LISTEN.replace("AF_INET", family)
        to_gateway = start(lab, 2, listen + RECEIVE + "print(seen.hexdigest())")
        assert line(to_gateway) == "listens"
        said(start(lab, CLIENT, CONNECT.replace("10.2.0.2", own) + SEND, "1"))
        assert said(to_gateway) == digest_of(1)
    assert proxy_counters(one)["opened"] == 0


def test_metrics_count_proxied_connections(lab: Lab) -> None:
    one, _ = gateways(lab)
    transfer(lab)
    until(lambda: flows(one) == 0, "the connection has ended")
    text = one.ask("GET", "/metrics")[1]
    labels = 'peer="b2",group="0"'
    assert f'hawser_gateway_tcp_proxy_connections_total{{{labels},cause="ended"}} 1' in text
    assert f"hawser_gateway_tcp_proxy_sent_bytes_total{{{labels}}} 1004000" in text
    assert f"hawser_gateway_group_tcp_proxy_flows{{{labels}}} 0" in text


ECHO_TO_ALL = """
import asyncio
async def echo(reader, writer):
    while part := await reader.read(1 << 16):
        writer.write(part)
    writer.close()
async def serve():
    server = await asyncio.start_server(echo, "", port, backlog=1000)
    print("listens")
    await server.serve_forever()
asyncio.run(serve())
"""

MANY = """
def ask(number):
    streams = [socket.create_connection(("10.2.0.2", port), 120) for _ in range(number)]
    for stream in streams:
        stream.sendall(b"x")
        assert stream.recv(1) == b"x"
    return streams
streams = ask(520)
print("first")
sys.stdin.readline()
more = ask(100)
print("more")
sys.stdin.readline()
for stream in streams + more:
    stream.close()
print("closed")
"""


def test_more_connections_of_a_client_than_its_share_go_as_datagrams(lab: Lab) -> None:
    one, _ = gateways(lab)
    server = start(lab, SERVER, ECHO_TO_ALL)
    assert line(server) == "listens"
    client = start(lab, CLIENT, MANY, stdin=subprocess.PIPE)
    assert client.stdin
    assert line(client) == "first"
    until(lambda: "saddr != 10.1.0.2" in rules(one), "its connections are not intercepted")
    before = proxy_counters(one)["opened"]
    client.stdin.write("\n")
    client.stdin.flush()
    assert line(client) == "more"
    counted = proxy_counters(one)
    assert (counted["opened"], counted["refused"]) == (before, 0)
    client.stdin.write("\n")
    client.stdin.flush()
    assert line(client) == "closed"
    until(lambda: "saddr" not in rules(one), "it has its share again")
