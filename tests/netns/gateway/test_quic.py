"""The `quic` transport: real traffic over QUIC paths.

   b1 10.1.0.1 -- wa ----------------- wa -- 10.2.0.1 b2        one unlimited path (`Lab.direct`)

   b1 10.1.0.1 -- wa -- 1a  router  2a -- wa -- 10.2.0.1 b2     four paths with a rate each, whose
                  wb -- 1b          2b -- wb                    queues hold 50 packets (`Lab.paths`)

Drawn with addresses in lab/gateway/pair.py.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from lab.gateway.pair import Gateway, Lab, pki
from lab.gateway.quic import MTU, lose_large_packets, mtu, paths_of, quic_pair
from lab.namespace import run
from lab.traffic.datagrams import send_datagrams
from lab.traffic.transfer import Transfer, send_bytes
from lab.waiting import PATIENCE, until

pytestmark = pytest.mark.root

PATHS = 4
SLOW = (2.5, 2.5, 2.5, 2.5)
"""Mbit/s: so little that the paths limit what is sent, also where the processor is busy."""

NOISE = """
import os, socket
noise = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for length in range(1, 1400):
    noise.sendto(os.urandom(length), ("198.18.0.2", 66 << 6))
"""
"""Random packets, sent to the port on which a gateway accepts connections."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def each_path_sends(gateway: Gateway, amount: float) -> Callable[[], bool]:
    """Whether each path has sent this number of bytes."""
    return lambda: min(path["sent_bytes"] for path in paths_of(gateway)) > amount


def order(gateway: Gateway) -> dict[str, int]:
    found: dict[str, int] = gateway.group()["order"]
    return found


def test_tcp_udp_and_echoes_pass(lab: Lab) -> None:
    one, two = quic_pair(lab.direct())
    assert len(lab.ping(20)) == 20
    send_bytes(lab, 6 << 20)
    delivery = send_datagrams(lab, 1000).delivery()
    assert (delivery.sent, delivery.lost) == (1000, 0)
    status = one.get("/v1/status")["peers"][0]["groups"][0]
    assert status["up"]
    assert status["encrypted"]
    counters = two.group()
    assert counters["received"]["packets"] > 1000 + (6 << 20) / MTU
    assert not counters["drops"]["malformed"]
    assert not counters["drops"]["foreign_source"]


def test_the_largest_packet_passes_whole_and_a_larger_one_in_fragments(lab: Lab) -> None:
    quic_pair(lab.direct())
    link = json.loads(lab.at(1, "ip", "-j", "link", "show", "hawser0"))[0]
    assert link["mtu"] == 1428
    for size in (link["mtu"] - 28, 20_000):
        assert "1 received" in lab.at(1, "ping", "-c1", "-W60", "-s", str(size), "10.2.0.1")


def test_hosts_learn_which_segments_fit(lab: Lab) -> None:
    """For hosts that know only their own link's MTU; seen where the SYN leaves the tunnel."""
    quic_pair(lab.direct())
    for number, other in ((1, 2), (2, 1)):
        route = f"10.{other}.0.0/24 dev hawser0 src 10.{number}.0.1 advmss 1460"
        lab.at(number, "ip", "route", "replace", *route.split())
    capture = lab.folder / "syn.pcap"
    syns = ("-i", "hawser0", "-w", str(capture), "-c", "4", "tcp[tcpflags] & tcp-syn != 0")
    tcpdump = lab.start(2, "tcpdump", "--immediate-mode", "-Z", "root", *syns, stderr=PIPE)
    assert tcpdump.stderr is not None
    assert "listening" in tcpdump.stderr.readline()
    lab.transfer("1M")
    assert tcpdump.wait(PATIENCE) == 0
    fields = ("tcp.srcport", "tcp.options.mss_val", "tcp.checksum.status")
    wanted = [part for field in fields for part in ("-e", field)]
    tshark = ("tshark", "-r", str(capture), "-o", "tcp.check_checksum:TRUE", "-T", "fields")
    seen = [line.split() for line in run(*tshark, *wanted).splitlines()]
    came = [line for line in seen if line[0] != "5201"]
    went = [line for line in seen if line[0] == "5201"]
    assert [line[1:] for line in came] == [["1388", "1"]] * 2
    assert [line[1] for line in went] == ["1460"] * 2, "as the host sent it"


@pytest.mark.parametrize("rates", [SLOW, (0.5, 1, 2, 6.5)])
def test_unequal_paths_add_up(lab: Lab, rates: tuple[float, ...]) -> None:
    """Each path carries its share of a connection, whose packets leave the tunnel in order."""
    one, two = quic_pair(lab.paths(rates), paths=PATHS)
    transfer = Transfer(lab)
    parts = [rate * 30_000 for rate in rates]
    until(
        lambda: all(p["sent_bytes"] > part for p, part in zip(paths_of(one), parts, strict=True)),
        "each path carries what it can in a quarter of a second",
    )
    until(lambda: order(two)["resequenced"] > 0, "packets of one connection took several paths")
    # A share is that of the last moments, in which a slow path may have had no packet.
    until(lambda: min(path["share"] for path in paths_of(one)) > 0, "each path has its share")
    paths = paths_of(one)
    assert sum(path["share"] for path in paths) == pytest.approx(1)
    assert min(path["rate_bps"] for path in paths) > 0
    transfer.end()
    assert order(two)["overflowed"] == 0


@pytest.mark.parametrize("congestion", ["delay", "cubic", "bbr"])
def test_each_congestion_control_carries_a_transfer(lab: Lab, congestion: str) -> None:
    one, _ = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS, congestion=congestion)
    transfer = Transfer(lab)
    until(each_path_sends(one, 250_000), "a megabyte, of which each path has a part")
    transfer.end()


@pytest.mark.parametrize("resequence", [True, False])
def test_packets_pass_as_they_come_where_that_is_wanted(lab: Lab, resequence: bool) -> None:
    """With UDP, which sends the same whether or not packets arrive out of order."""
    _, two = quic_pair(lab.paths((1, 2, 4, 33)), paths=PATHS, resequence=resequence)

    def passed() -> int:
        lab.transfer("5M", "-u", "-b", "30M", "-l", "1200")
        counted = order(two)
        return counted["in_order"] + counted["resequenced"] + counted["late"]

    until(lambda: passed() > 1000, "a thousand have passed")
    assert order(two)["resequenced" if resequence else "overflowed"] > 0, "out of order"
    if resequence:
        assert order(two)["overflowed"] == 0


@pytest.mark.parametrize("recovery", ["resend", "none"])
def test_tcp_does_not_see_what_paths_lose(lab: Lab, recovery: str) -> None:
    """A connection slower than its paths, so that packets are lost for no other reason."""
    one, two = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS, recovery=recovery)
    lose_large_packets(lab, one_in=40)
    result = lab.transfer("5M", "-b", "12M")
    retransmitted = result["end"]["sum_sent"]["retransmits"]
    recovered = one.group()["recovery"]
    resent, copied = recovered["retransmitted"], recovered["duplicated"]
    duplicates = order(two)["duplicates"]
    if recovery == "resend":
        assert resent > 40
        assert retransmitted < resent / 4
        assert duplicates < copied + resent / 4
    else:
        assert resent == 0
        assert retransmitted > 20


@pytest.mark.parametrize("compresses", [True, False])
def test_headers_of_tcp_are_compressed(lab: Lab, compresses: bool) -> None:
    one, two = quic_pair(lab.paths(SLOW), paths=PATHS, header_compression=compresses)
    lab.transfer("2M")

    def arrived() -> bool:
        """Nearly all: a pure ACK that a queue drops is not sent again."""
        sent, received = one.group()["sent"], two.group()["received"]
        return bool(received["packets"] > 0.95 * sent["packets"])

    until(arrived, "what was sent has arrived")
    sent, headers, drops = (one.group()["sent"], one.group()["headers"], two.group()["drops"])
    assert (drops["malformed"], drops["unknown_context"]) == (0, 0)
    if compresses:
        assert headers["compressed"] > 0.8 * sent["packets"]
        assert headers["saved_bytes"] > 24 * headers["compressed"]
    else:
        assert headers["compressed"] == headers["saved_bytes"] == 0


@pytest.mark.parametrize("streams", [1, 4])
def test_an_acknowledgement_takes_the_place_of_one_that_waits(lab: Lab, streams: int) -> None:
    """Those that wait behind what the other direction sends."""
    _one, two = quic_pair(lab.paths(SLOW), paths=PATHS)

    def acks_filtered() -> int:
        lab.transfer("2M", "-P", str(streams), "--bidir")
        return int(two.group()["acks_filtered"])

    until(lambda: acks_filtered() > 10, "some are replaced")

    def all_accounted_for() -> bool:
        counters = two.get("/v1/counters")
        tun, group = counters["tun"], counters["peers"][0]["groups"][0]
        left_out = [group["acks_filtered"], *tun["drops"].values(), *group["drops"].values()]
        return bool(tun["read"]["packets"] == group["sent"]["packets"] + sum(left_out))

    until(all_accounted_for, "each packet is sent or counted as left out")


def test_flows_go_on_when_a_group_is_changed_at_one_end(lab: Lab) -> None:
    """It starts again, without the contexts of the one before."""
    one, two = quic_pair(lab.direct())
    transfer = Transfer(lab, pause=0.005)
    until(lambda: one.group()["headers"]["compressed"] > 1000, "headers are compressed")
    new = copy.deepcopy(two.config)
    new["peers"][0]["groups"][0]["class"] = "I"
    assert two.ask("PUT", "/v1/config", new)[0] == 200
    until(lambda: two.group()["drops"]["unknown_context"] > 0, "a context is missed")
    seen = one.group()["headers"]["compressed"]
    until(lambda: one.group()["headers"]["compressed"] > seen + 1000, "and another is used")
    transfer.end()
    assert two.group()["drops"]["malformed"] == 0


def test_a_path_that_goes_dark_is_left_and_used_again(lab: Lab) -> None:
    one, two = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS)
    transfer = Transfer(lab)
    rule = ("from", "198.18.1.0/24", "to", "198.18.3.0/24", "priority", "50", "blackhole")
    lab.at(0, "ip", "rule", "add", *rule)
    until(lambda: paths_of(one)[0]["state"] in ("degraded", "down"), "the path is left")
    came = two.group()["received"]["bytes"]
    until(lambda: two.group()["received"]["bytes"] > came + 3e6, "the others carry")
    lab.at(0, "ip", "rule", "del", *rule)
    until(lambda: paths_of(one)[0]["state"] == "up", "the path is back")
    until(lambda: mtu(one) == MTU, "it takes full packets")
    given = paths_of(one)[0]["sent_bytes"]
    until(lambda: paths_of(one)[0]["sent_bytes"] > given + 500_000, "it carries again")
    transfer.end()


def test_urgent_flows_have_their_group(lab: Lab) -> None:
    """Echoes are of type I, the rest of type II; each has a group of its class."""
    lab.direct()
    echoes = {"name": "echoes", "protocol": "icmp", "type": "I"}
    classifier = {"lan": "lo", "rules": [echoes], "default": "II"}
    files = pki(lab.folder, ["b1", "b2"])
    made = [lab.gateway(1, 2, classifier=classifier), lab.gateway(2, 1, classifier=classifier)]
    for gateway in made:
        gateway.config["transport"] = {"kind": "quic", "tls": files[gateway.config["branch"]]}
        [group] = gateway.config["peers"][0]["groups"]
        groups = [group | {"id": 0, "class": "II"}, group | {"id": 1, "class": "I"}]
        gateway.config["peers"][0]["groups"] = groups
        gateway.start()
    until(lambda: min(made[0].subflows(), made[1].subflows()) == len(groups), "both are up")
    assert len(lab.ping(20)) == 20
    lab.transfer("4M")
    counters = made[0].get("/v1/counters")["peers"][0]["groups"]
    bulk, urgent = (found["sent"]["packets"] for found in counters)
    assert 20 <= urgent < 40
    assert bulk > 1000
    flows = [found["flows"] for found in made[0].get("/v1/status")["peers"][0]["groups"]]
    assert min(flows) >= 1


def test_who_has_no_certificate_of_ours_changes_nothing(lab: Lab) -> None:
    """A gateway of another authority, and random packets."""
    one, two = quic_pair(lab.direct())
    foreign = pki(lab.folder, ["b1"], authority="other")["b1"]
    one.stop()
    one.config["transport"] = {"kind": "quic", "tls": foreign}
    one.start()
    lab.at(1, sys.executable, "-c", NOISE)
    until(lambda: not two.up(), "the old path has ended")
    assert not one.up()
    assert two.get("/v1/counters")["peers"][0]["groups"][0]["received"]["packets"] == 0


def test_a_gateway_that_restarts_begins_anew(lab: Lab) -> None:
    one, two = quic_pair(lab.direct())
    lab.ping(5)
    one.stop()
    one.start()
    until(lambda: one.up() and two.up(), "both are up again")
    assert len(lab.ping(10)) == 10


def test_metrics_tell_of_every_path(lab: Lab) -> None:
    one, _ = quic_pair(lab.paths((10, 10, 10, 10)), paths=PATHS)
    up = [
        f'hawser_gateway_path_up{{peer="b2",group="0",member="{number}"}} 1.0'
        for number in range(PATHS)
    ]
    until(lambda: all(line in one.ask("GET", "/metrics")[1] for line in up), "each path is up")
    status, text = one.ask("GET", "/metrics")
    assert status == 200
    assert 'hawser_gateway_received_order_total{peer="b2",group="0",cause="in_order"}' in text
