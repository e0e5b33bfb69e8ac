"""The `quic` transport: real traffic over QUIC paths (labs drawn in gateway_lab)."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
from gateway_lab import Gateway, Lab, pki, run
from waiting import until

pytestmark = [pytest.mark.root, pytest.mark.measures]

PATHS = 4

NOISE = """
import os, socket
noise = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for length in range(1, 1400):
    noise.sendto(os.urandom(length), ("198.18.0.2", 66 << 6))
"""
"""Packets of nobody, sent to where a gateway takes connections."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def pair(lab: Lab, *, paths: int = 1, **settings: object) -> tuple[Gateway, Gateway]:
    """Both gateways, started, with so many paths up; `settings` are of the transport."""
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway in (one, two):
        name = gateway.config["branch"]
        gateway.config["transport"] = {"kind": "quic", "tls": files[name], **settings}
        gateway.start()
    until(lambda: min(one.subflows(), two.subflows()) >= paths, f"{paths} paths are up")
    until(lambda: mtu(one) == mtu(two) == 1472, "the paths' MTU is known")
    return one, two


def paths_of(gateway: Gateway) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gateway.get("/v1/status")["peers"][0]["groups"][0]["paths"]
    return found


def mtu(gateway: Gateway) -> int:
    return min(int(path["mtu"]) for path in paths_of(gateway))


def test_tcp_udp_and_echoes_pass(lab: Lab) -> None:
    one, two = pair(lab.direct())
    assert len(lab.ping(20)) == 20
    result = lab.iperf(seconds=1)
    assert result["end"]["sum_received"]["bits_per_second"] > 50e6
    status = one.get("/v1/status")["peers"][0]["groups"][0]
    assert status["up"]
    assert status["encrypted"]
    counters = two.group()
    assert counters["received"]["packets"] > 1000
    assert not counters["drops"]["malformed"]
    assert not counters["drops"]["foreign_source"]


def test_the_largest_packet_passes_whole_and_a_larger_one_in_fragments(lab: Lab) -> None:
    pair(lab.direct())
    link = json.loads(lab.at(1, "ip", "-j", "link", "show", "hawser0"))[0]
    assert link["mtu"] == 1428
    for size in (link["mtu"] - 28, 20_000):
        assert "1 received" in lab.at(1, "ping", "-c1", "-W2", "-s", str(size), "10.2.0.1")


def test_hosts_learn_which_segments_fit(lab: Lab) -> None:
    """Of hosts that know only their own link's MTU, seen where a SYN comes out."""
    pair(lab.direct())
    for number, other in ((1, 2), (2, 1)):
        route = f"10.{other}.0.0/24 dev hawser0 src 10.{number}.0.1 advmss 1460"
        lab.at(number, "ip", "route", "replace", *route.split())
    capture = lab.folder / "syn.pcap"
    syns = ("-i", "hawser0", "-w", str(capture), "-c", "4", "tcp[tcpflags] & tcp-syn != 0")
    tcpdump = lab.start(2, "tcpdump", "--immediate-mode", "-Z", "root", *syns, stderr=PIPE)
    assert tcpdump.stderr is not None
    assert "listening" in tcpdump.stderr.readline()
    lab.iperf(seconds=1)
    assert tcpdump.wait(60) == 0
    fields = ("tcp.srcport", "tcp.options.mss_val", "tcp.checksum.status")
    wanted = [part for field in fields for part in ("-e", field)]
    tshark = ("tshark", "-r", str(capture), "-o", "tcp.check_checksum:TRUE", "-T", "fields")
    seen = [line.split() for line in run(*tshark, *wanted).splitlines()]
    came = [line for line in seen if line[0] != "5201"]
    went = [line for line in seen if line[0] == "5201"]
    assert [line[1:] for line in came] == [["1388", "1"]] * 2
    assert [line[1] for line in went] == ["1460"] * 2, "as the host wrote it"


@pytest.mark.parametrize("rates", [(10, 10, 10, 10), (1, 2, 4, 33)])
def test_unequal_paths_add_up(lab: Lab, rates: tuple[float, ...]) -> None:
    """The best path alone carries 31.5 of 33 Mbit/s."""
    one, two = pair(lab.paths(rates), paths=PATHS)
    result = lab.iperf("-O", "2", seconds=6)
    assert result["end"]["sum_received"]["bits_per_second"] > 32.5e6
    paths = paths_of(one)
    assert sum(path["share"] for path in paths) == pytest.approx(1)
    found = [path["rate_bps"] / 1e6 for path in paths]
    assert found == pytest.approx(rates, rel=0.35)
    order = two.group()["order"]
    assert order["in_order"] + order["resequenced"] > 0
    assert order["late"] < 0.01 * (order["in_order"] + order["resequenced"])


@pytest.mark.parametrize("congestion", ["delay", "cubic", "bbr"])
def test_each_congestion_control_carries_a_transfer(lab: Lab, congestion: str) -> None:
    one, _ = pair(lab.paths((10, 10, 10, 10)), paths=PATHS, congestion=congestion)
    result = lab.iperf(seconds=1.5)
    assert result["end"]["sum_received"]["bytes"] > 1_000_000
    assert all(path["sent_bytes"] > 100_000 for path in paths_of(one))


@pytest.mark.parametrize("resequence", [True, False])
def test_packets_pass_as_they_come_where_that_is_wanted(lab: Lab, resequence: bool) -> None:
    """With UDP, which sends the same whatever comes out of order."""
    _, two = pair(lab.paths((1, 2, 4, 33)), paths=PATHS, resequence=resequence)
    result = lab.iperf("-u", "-b", "30M", "-l", "1200", seconds=1.5)
    assert result["end"]["sum"]["packets"] > 1000
    order = two.group()["order"]
    passed = order["in_order"] + order["resequenced"] + order["late"]
    assert passed > 1000
    assert (order["overflowed"] > 0) is not resequence


LOSSES = """
table ip hawser_losses {
  chain losses {
    type filter hook forward priority 0;
    meta l4proto udp meta length > 1000 numgen random mod 100 == 0 drop
  }
}
"""
"""One large packet of QUIC in a hundred is lost in the network."""


@pytest.mark.parametrize("recovery", ["resend", "none"])
def test_tcp_does_not_see_what_paths_lose(lab: Lab, recovery: str) -> None:
    one, two = pair(lab.paths((10, 10, 10, 10)), paths=PATHS, recovery=recovery)
    (lab.folder / "losses.nft").write_text(LOSSES)
    lab.at(0, "nft", "-f", str(lab.folder / "losses.nft"))
    result = lab.iperf("-O", "1", seconds=3)
    assert result["end"]["sum_received"]["bits_per_second"] > 10e6
    retransmitted = result["end"]["sum_sent"]["retransmits"]
    recovered = one.group()["recovery"]
    resent, copied = recovered["resent"], recovered["copied"]
    duplicates = two.group()["order"]["duplicates"]
    if recovery == "resend":
        assert resent > 40
        assert retransmitted < resent / 4
        assert duplicates < copied + resent / 4
    else:
        assert resent == 0
        assert retransmitted > 20


@pytest.mark.parametrize("compresses", [True, False])
def test_headers_of_tcp_are_compressed(lab: Lab, compresses: bool) -> None:
    one, two = pair(lab.paths((10, 10, 10, 10)), paths=PATHS, header_compression=compresses)
    lab.iperf(seconds=2)
    sent, headers = one.group()["sent"], one.group()["headers"]
    came, drops = two.group()["received"], two.group()["drops"]
    assert (came["packets"], came["bytes"]) == (sent["packets"], sent["bytes"])
    assert (drops["malformed"], drops["unknown_context"]) == (0, 0)
    if compresses:
        assert headers["compressed"] > 0.8 * sent["packets"]
        assert headers["spared_bytes"] > 24 * headers["compressed"]
    else:
        assert headers["compressed"] == headers["spared_bytes"] == 0


@pytest.mark.parametrize("streams", [1, 4])
def test_an_acknowledgement_takes_the_place_of_one_that_waits(lab: Lab, streams: int) -> None:
    _one, two = pair(lab.direct())
    lab.iperf("-P", str(streams), seconds=2)
    counters = two.get("/v1/counters")
    tun, group = counters["tun"], counters["peers"][0]["groups"][0]
    left_out = [group["superseded"], *tun["drops"].values(), *group["drops"].values()]
    assert group["superseded"] > tun["read"]["packets"] / 50
    assert tun["read"]["packets"] == group["sent"]["packets"] + sum(left_out)


def test_flows_go_on_when_a_group_is_changed_at_one_end(lab: Lab) -> None:
    """It begins anew, and knows nothing of what was said to the one before."""
    one, two = pair(lab.direct())
    server = lab.start(2, "iperf3", "-s", "-1", stdout=DEVNULL)
    until(lambda: ":5201" in lab.at(2, "ss", "-Hltn"), "iperf3 listens")
    client = lab.start(1, "iperf3", "-c", "10.2.0.1", "-b", "20M", "-t", "4", stdout=DEVNULL)
    until(lambda: one.group()["headers"]["compressed"] > 1000, "headers are compressed")
    new = copy.deepcopy(two.config)
    new["peers"][0]["groups"][0]["class"] = "I"
    assert two.ask("PUT", "/v1/config", new)[0] == 200
    until(lambda: two.group()["drops"]["unknown_context"] > 0, "a context is missed")
    seen = one.group()["headers"]["compressed"]
    until(lambda: one.group()["headers"]["compressed"] > seen + 1000, "and another is used")
    assert (client.wait(60), server.wait(60)) == (0, 0)
    assert two.group()["drops"]["malformed"] == 0


def test_a_path_that_goes_dark_is_left_and_used_again(lab: Lab) -> None:
    one, _ = pair(lab.paths((10, 10, 10, 10)), paths=PATHS)
    rule = ("from", "198.18.1.0/24", "to", "198.18.3.0/24", "priority", "50", "blackhole")
    lab.at(0, "ip", "rule", "add", *rule)
    result = lab.iperf("-O", "1", seconds=3)
    assert result["end"]["sum_received"]["bits_per_second"] > 20e6
    assert paths_of(one)[0]["state"] in ("degraded", "down")
    lab.at(0, "ip", "rule", "del", *rule)
    until(lambda: paths_of(one)[0]["state"] == "up", "the path is back")
    until(lambda: mtu(one) == 1472, "it takes full packets")
    given = paths_of(one)[0]["sent_bytes"]
    lab.iperf(seconds=2)
    assert paths_of(one)[0]["sent_bytes"] > given + 500_000


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
    lab.ping(20)
    lab.iperf(seconds=1)
    counters = made[0].get("/v1/counters")["peers"][0]["groups"]
    bulk, urgent = (found["sent"]["packets"] for found in counters)
    assert 20 <= urgent < 40
    assert bulk > 1000
    flows = [found["flows"] for found in made[0].get("/v1/status")["peers"][0]["groups"]]
    assert min(flows) >= 1


def test_who_has_no_certificate_of_ours_changes_nothing(lab: Lab) -> None:
    """A gateway of another authority, and packets of nobody."""
    one, two = pair(lab.direct())
    stranger = pki(lab.folder, ["b1"], authority="other")["b1"]
    one.stop()
    one.config["transport"] = {"kind": "quic", "tls": stranger}
    one.start()
    lab.at(1, sys.executable, "-c", NOISE)
    until(lambda: not two.up(), "the old path has ended")
    assert not one.up()
    assert two.get("/v1/counters")["peers"][0]["groups"][0]["received"]["packets"] == 0


def test_a_gateway_that_restarts_begins_anew(lab: Lab) -> None:
    one, two = pair(lab.direct())
    lab.ping(5)
    one.stop()
    one.start()
    until(lambda: one.up() and two.up(), "both are up again")
    assert len(lab.ping(10)) == 10


def test_metrics_tell_of_every_path(lab: Lab) -> None:
    one, _ = pair(lab.paths((10, 10, 10, 10)), paths=PATHS)
    status, text = one.ask("GET", "/metrics")
    assert status == 200
    for number in range(PATHS):
        assert f'hawser_gateway_path_up{{peer="b2",group="0",member="{number}"}} 1.0' in text
    assert 'hawser_gateway_received_order_total{peer="b2",group="0",cause="in_order"}' in text
