"""What a hostile neighbour on the WAN reaches: nothing that the gateway did not ask for.

   host 4             gateway 2                       gateway 1, and the neighbour
  +-----------+      +-----------------------+       +-----------------+
  | 10.2.0.2  |------| lan 10.2.0.1       wa |=======| wa 198.18.0.1   |
  +-----------+      |         198.18.0.2    |       |    fd00::1      |
                     |         fd00::2       |       +-----------------+
                     |  wa.7   198.18.7.2    |  a VLAN, if the kernel has them
                     |    away 172.16.0.1 ---|------ 5: 172.16.0.9, management
                     +-----------------------+          203.0.113.9, the internet

Gateway 2, host 4 and node 5 write down what comes to UDP port 53, and have TCP servers on port 22.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import ROOT
from lab.gateway import tcp_proxy
from lab.gateway.away import AWAY, SERVE, networks, serve
from lab.gateway.frames import GRE, ICMP, LLDP, Frame, encode
from lab.gateway.pair import Gateway, Lab, pki
from lab.gateway.providers import masquerade
from lab.waiting import until

pytestmark = pytest.mark.root

HOST = 4
FRAMES = ROOT / "tests" / "lab" / "gateway" / "frames.py"

WRITE_DOWN = """
import socket, sys
server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server.bind(("::", 53))
print("listens", flush=True)
while True:
    data, client = server.recvfrom(100)
    with open(sys.argv[1], "a") as file:
        file.write(data.decode() + "\\n")
    server.sendto(b"welcome", client)
"""

ASK = """
import socket, sys
kind = socket.SOCK_STREAM if sys.argv[3] == "tcp" else socket.SOCK_DGRAM
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
try:
    asks = socket.socket(family, kind)
    asks.settimeout(float(sys.argv[4]))
    asks.connect((sys.argv[1], int(sys.argv[2])))
    if sys.argv[3] == "udp":
        asks.send(b"asked")
    print(asks.recv(100).decode())
except OSError as error:
    print(error)
"""

PORT = {
    "name": "a",
    "interface": "wa",
    "address": "198.18.0.2",
    "next_hop": "198.18.0.1",
    "type": "internet",
}


@dataclass(frozen=True)
class Forged:
    """A frame that a neighbour sends, and why the gateway does not take it."""

    frame: Frame
    cause: str
    reaches: bool = True
    """Whether it arrives where nothing is filtered."""


FORGED = {
    "service": Forged(Frame("198.18.0.2"), "closed_service"),
    "service6": Forged(Frame("fd00::2"), "closed_service"),
    "tagged with a priority": Forged(Frame("198.18.0.2", tags=(0,)), "closed_service"),
    "tagged with a priority, IPv6": Forged(Frame("fd00::2", tags=(0xE000,)), "closed_service"),
    "the gateway's LAN address": Forged(Frame("10.2.0.1"), "closed_service"),
    "VLAN": Forged(Frame("198.18.7.2", source="198.18.7.1", tags=(7,)), "vlan"),
    "VLAN behind a priority": Forged(
        Frame("198.18.7.2", source="198.18.7.1", tags=(0, 7)), "ethernet_type"
    ),
    "host": Forged(Frame("10.2.0.2"), "not_local"),
    "host, IPv6": Forged(Frame("2001:db8:2::2"), "not_local"),
    "host, tagged": Forged(Frame("10.2.0.2", tags=(0,)), "not_local"),
    "the port of the tunnel, at a host": Forged(
        Frame("10.2.0.2", port=66 << 6), "not_local", reaches=False
    ),
    "management": Forged(Frame("172.16.0.9"), "not_local"),
    "internet": Forged(Frame("203.0.113.9"), "not_local"),
    "own source": Forged(Frame("fd00::2", source="2001:db8:2::1"), "spoofed", reaches=False),
    "source of a LAN host": Forged(Frame("10.2.0.1", source="10.2.0.2"), "spoofed"),
    "all hosts": Forged(Frame("224.0.0.1", link="01:00:5e:00:00:01"), "multicast", reaches=False),
    "GRE": Forged(Frame("198.18.0.2", protocol=GRE), "protocol", reaches=False),
    "LLDP": Forged(Frame("198.18.0.2", ethernet_type=LLDP), "ethernet_type", reaches=False),
    "echo": Forged(Frame("198.18.0.2", protocol=ICMP, icmp_type=8), "icmp", reaches=False),
    "redirect": Forged(Frame("198.18.0.2", protocol=ICMP, icmp_type=5), "icmp", reaches=False),
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        lab.direct()
        tcp_proxy.hosts(lab)
        tcp_proxy.hosts_with_ipv6(lab)
        networks(lab)
        for number in (1, 2):
            lab.at(number, "ip", "address", "add", f"fd00::{number}/64", "dev", "wa", "nodad")
        lab.at(2, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.wa.rp_filter=0")
        vlan = ("link", "wa", "name", "wa.7", "type", "vlan", "id", "7")
        lab.at(2, "ip", "link", "add", *vlan, check=False)
        if has_vlan(lab):
            lab.at(2, "ip", "address", "add", "198.18.7.2/24", "dev", "wa.7")
            lab.at(2, "ip", "link", "set", "wa.7", "up")
        for number in (2, HOST, AWAY):
            serve(lab, number, SERVE, "22")
            serve(lab, number, WRITE_DOWN, str(lab.folder / f"came-{number}"))
        yield lab


def has_vlan(lab: Lab) -> bool:
    return "wa.7" in lab.at(2, "ip", "link")


def gateways(lab: Lab, kind: str, **wan: Any) -> tuple[Gateway, Gateway]:  # noqa: ANN401
    """Both gateways, started; `wan` are fields of that section of gateway 2."""
    files = pki(lab.folder, ["b1", "b2"])
    one, two = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway in (one, two):
        gateway.config["tun"]["address"] = None
        tls = files[gateway.config["branch"]]
        transport: dict[str, Any] = {"kind": kind.partition("+")[0], "tls": tls}
        if kind == "ipip":
            transport = {"kind": kind, "insecure": True}
        gateway.config["transport"] = transport
    two.config["classifier"] = {"lan": "lan"}
    if kind.endswith("+switch"):
        two.config["switch"] = {"kind": "bpf", "ports": [PORT]}
    if wan:
        two.config["wan"] = wan
    for gateway in (one, two):
        gateway.start()
    until(lambda: one.up() and two.up(), "both are up")
    return one, two


def send(lab: Lab, *names: str) -> None:
    """Send forged frames to gateway 2 from its neighbour."""
    mac = lab.at(2, "cat", "/sys/class/net/wa/address").strip()
    lines = [encode(FORGED[name].frame, mac, name).hex() for name in names]
    command = lab.namespaces.inside(1, sys.executable, str(FRAMES), "wa")
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


def came(lab: Lab) -> set[str]:
    """What arrived anywhere."""
    files = lab.folder.glob("came-*")
    return {name for file in files for name in file.read_text().splitlines()}


def asks(
    lab: Lab,
    number: int,
    address: str,
    port: int = 22,
    protocol: str = "tcp",
    patience: float = 1.5,
) -> str:
    """What a server says to a client."""
    question = (address, str(port), protocol, str(patience))
    return lab.at(number, sys.executable, "-c", ASK, *question).strip()


def drops(gateway: Gateway) -> dict[str, int]:
    found: dict[str, int] = gateway.get("/v1/counters")["wan"]
    return found


def counted(gateway: Gateway, cause: str) -> int:
    """Drops by this cause. A switch drops what is for other hosts before the filter sees it."""
    found = gateway.get("/v1/counters")
    switched = found["switch"] if cause == "not_local" else None
    return int(found["wan"][cause] + (switched["drops"]["no_entry"] if switched else 0))


def wait_for_more(gateway: Gateway, cause: str, before: int, name: str) -> None:
    until(lambda: counted(gateway, cause) > before, f"{name} is counted")


def test_forged_frames_arrive_where_nothing_is_filtered(lab: Lab) -> None:
    """The others of this file could not fail otherwise."""
    _, two = gateways(lab, "quic")
    send(lab, *FORGED)
    expected = {name for name, forged in FORGED.items() if forged.reaches}
    if not has_vlan(lab):
        expected = {name for name in expected if 7 not in FORGED[name].frame.tags}
    until(lambda: came(lab) >= expected, f"{expected} arrive, as {came(lab)}")
    assert two.get("/v1/status")["filtered"] is False
    assert two.get("/v1/counters")["wan"] is None


@pytest.mark.parametrize("kind", ["quic", "quic+switch", "mptcp", "ipip"])
def test_forged_frames_reach_nothing_and_are_counted(lab: Lab, kind: str) -> None:
    _, two = gateways(lab, kind, interfaces=["wa"])
    for name, forged in FORGED.items():
        before = counted(two, forged.cause)
        send(lab, name)
        wait_for_more(two, forged.cause, before, name)
    assert asks(lab, 1, "198.18.0.2", patience=0.3) != "welcome"
    assert asks(lab, 1, "fd00::2", 53, "udp", patience=0.3) != "welcome"
    assert (
        len(lab.at(1, "ping", "-c3", "-i0.2", "-W9", "-I", "10.1.0.1", "10.2.0.2").split("time="))
        == 4
    )
    assert came(lab) == set()
    assert two.get("/v1/status")["filtered"] is True
    assert 'wan_dropped_packets_total{cause="vlan"}' in two.ask("GET", "/metrics")[1]


def test_answers_and_open_services_pass(lab: Lab) -> None:
    """Answers to the gateway, and to a host for which it masquerades."""
    services = [{"protocol": "tcp", "port": 22}, {"protocol": "udp", "port": 53}]
    _, two = gateways(lab, "quic", interfaces=["wa"])
    serve(lab, 1, SERVE, "22")
    serve(lab, 1, WRITE_DOWN, str(lab.folder / "asked"))
    masquerade(lab, 2, "wa")
    for number, address in ((2, "198.18.0.1"), (2, "fd00::1"), (HOST, "198.18.0.1")):
        if ":" not in address:
            assert asks(lab, number, address, patience=60) == "welcome"
        assert asks(lab, number, address, 53, "udp", patience=60) == "welcome"
    assert "1 received" in lab.at(2, "ping", "-c1", "-W60", "198.18.0.1")
    opened = two.config | {"wan": {"interfaces": ["wa"], "echo": True, "services": services}}
    assert two.ask("PUT", "/v1/config", opened)[0] == 200
    assert asks(lab, 1, "198.18.0.2", patience=60) == "welcome"
    assert asks(lab, 1, "fd00::2", 53, "udp", patience=60) == "welcome"
    assert "1 received" in lab.at(1, "ping", "-c1", "-W60", "198.18.0.2")
    assert asks(lab, 1, "198.18.0.2", 179, patience=0.3) != "welcome"
    assert two.ask("PUT", "/v1/config", two.config)[0] == 200
    assert asks(lab, 1, "198.18.0.2", patience=0.3) != "welcome"


def test_rules_follow_interfaces_and_the_daemon(lab: Lab) -> None:
    """An interface that comes later is filtered; counts go on; a killed gateway's rules stay."""
    _, two = gateways(lab, "quic", interfaces=["wa", "wb"])
    send(lab, "VLAN", "service")
    until(lambda: drops(two)["vlan"] == 1, "it is counted")
    lab.cable((1, "wb", "198.18.9.1/24"), (2, "wb", "198.18.9.2/24"))
    until(lambda: "wb" in rules(lab, "netdev"), "the new interface is hooked")
    assert drops(two)["vlan"] == 1
    assert drops(two)["closed_service"] >= 1
    assert asks(lab, 1, "198.18.9.2", patience=0.3) != "welcome"
    two.stop(9)
    assert "closed_service" in rules(lab, "inet")
    assert asks(lab, 1, "198.18.0.2", patience=0.3) != "welcome"
    two.start()
    assert drops(two)["vlan"] == 0
    two.stop()
    assert rules(lab, "inet") == rules(lab, "netdev") == ""


def test_a_peer_with_other_label_bits_is_counted_and_named(lab: Lab) -> None:
    """It sends to ports that would be right with its layout of path labels."""
    one, two = gateways(lab, "quic", interfaces=["wa"])
    assert drops(two)["other_label_bits"] == 0
    one.stop()
    one.config["transport"]["label_bits"] = 5
    one.start()
    until(lambda: drops(two)["other_label_bits"] > 0, "it is counted")
    until(lambda: "`label_bits`" in two.log.read_text(), "it is named")
    assert not one.up()


def rules(lab: Lab, family: str) -> str:
    return lab.at(2, "nft", "list", "table", family, "hawser_wan", check=False)


def test_a_vlan_that_is_listed_passes(lab: Lab) -> None:
    """Such as the LAN's, on the wire of the WAN."""
    _, two = gateways(lab, "quic", interfaces=["wa"], vlans=[7])
    send(lab, "VLAN", "service")
    until(lambda: drops(two)["closed_service"] > 0, "what came after it is dropped")
    assert drops(two)["vlan"] == 0
    if has_vlan(lab):
        until(lambda: came(lab) == {"VLAN"}, "it arrives")
