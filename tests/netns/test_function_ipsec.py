"""An end of a tunnel that hawserd carries, with strongSwan's own user-space ESP at the other.

a (hawserd) f0 ==== near b (charon, kernel-libipsec)      10.99.0.1 at a, 10.99.0.2 at b
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from driver_traffic import ping, tcp
from waiting import until

from hawser.control.client import DaemonClient
from hawser.control.model import FunctionCounters
from hawser.driver import tunnels
from hawser.driver.local import LocalLab
from hawser.driver.tunnels import strongswan
from hawser.driver.tunnels.function import TunnelEnd
from hawser.node.command import Background
from hawser.node.netns import NamespaceNode
from hawser.overlay import network
from hawser.overlay.plan import NetworkPlan, TunnelPlan
from hawser.spec import load
from hawser.spec.tunnel import TunnelKind

pytestmark = pytest.mark.root

WORKFLOW = b"""\
hawser: 1
name: ends
title: Two ends
topology:
  nodes: [a, b]
  links:
    wan: {ends: [a.f0, b.near]}
measurements:
  rtt: {probe: ping, from: a, to: b}
"""
A, B = "10.99.0.1", "10.99.0.2"


@dataclass(frozen=True)
class Ends:
    """Both ends of a tunnel, connected."""

    lab: LocalLab
    end: TunnelEnd
    folder: Path
    """Of charon's files at the other end."""

    @property
    def a(self) -> NamespaceNode:
        return self.lab.nodes["a"]

    @property
    def b(self) -> NamespaceNode:
        return self.lab.nodes["b"]

    def counters(self) -> FunctionCounters:
        with DaemonClient(self.end.control) as control:
            return control.function_counters()

    def dropped(self) -> dict[str, int]:
        return {cause: count for cause, count in self.counters().drops.items() if count}

    def rekey(self, node: str) -> None:
        """Have a node renew the keys."""
        folder = {"a": self.end.folder, "b": self.folder}[node]
        command = ["swanctl", "--rekey", "--child", "t", "--uri"]
        uri = f"unix://{strongswan.socket(folder)}"
        env = strongswan.environment(folder)
        self.lab.nodes[node].run([*command, uri], timeout=60, env=env)

    def associations(self) -> dict[str, str]:
        """Keys by identifier, as charon at b says; both directions, old and new."""
        return keys((self.folder / "charon.log").read_text())


@pytest.fixture
def ends(
    request: pytest.FixtureRequest, deploy: Callable[[NetworkPlan], LocalLab]
) -> Iterator[Ends]:
    """Give a tunnel; its parameter are the packets after which a renews the keys."""
    after: int | None = getattr(request, "param", None)
    plan = network(load("x.yaml", lambda _: WORKFLOW).variants[0].scenario)
    lab = deploy(plan)
    a, b = (lab.nodes[name] for name in "ab")
    here, there = (plan.addresses[name] for name in "ab")
    common = {"name": "t", "kind": TunnelKind.STRONGSWAN}
    mine, others = ((IPv4Network(address),) for address in (A, B))
    first = TunnelPlan(
        **common, node="a", peer="b", local=here, remote=there, inside=mine, outside=others, table=9
    )
    second = TunnelPlan(
        **common, node="b", peer="a", local=there, remote=here, inside=others, outside=mine
    )
    lacks = tuple(tunnels.missing(plan.model_copy(update={"tunnels": (first, second)})))
    if lacks:
        pytest.skip(lacks[0])
    a.run(["ip", "address", "add", A, "dev", "lo"], timeout=60)
    b.run(["ip", "address", "add", B, "dev", "lo"], timeout=60)
    secret = secrets.token_hex(16)
    folder, other = lab.directory / "own", lab.directory / "other"
    for each in (folder, other):
        each.mkdir()
    strongswan.write(other, second, secret)
    tell_keys(other / "strongswan.conf")
    environment = strongswan.environment(other)
    charon = b.start(strongswan.COMMAND, log=other / "charon.log", env=environment)
    end = TunnelEnd(lab.directory, folder, first, a, secret, after)
    try:
        until(strongswan.socket(other).is_socket)
        strongswan.load(other, b)
        end.load()
        end.connect()
        end.wait()
        a.run(["ip", "route", "add", B, "dev", "esp0", "src", A], timeout=60)
        yield Ends(lab, end, other)
    finally:
        end.stop()
        charon.stop()


def tell_keys(config: Path) -> None:
    text = config.read_text()
    config.write_text(text.replace("default = 1\n", "default = 1\n chd = 4\n", 1))


def keys(log: str) -> dict[str, str]:
    """Read keys from charon's log, in the order of its steps; not as hawserd reads them."""
    found, begun = {}, True
    steps = re.compile(
        r"parsed \w+ (?P<role>request|response)"
        r"|encryption (?P<whose>\w+) key => [^\n]*\n"
        r"(?P<rows>(?:\d+\[CHD\] +\d+: [^\n]*\n)+)"
        r"|(?:adding|registering) (?P<way>in|out)bound ESP SA\n\d+\[CHD\]   SPI (?P<spi>0x\w+)"
    )
    material: dict[str, str] = {}
    for step in steps.finditer(log):
        if step["role"]:
            begun = step["role"] == "response"
        elif step["whose"]:
            rows = (line.partition(": ")[2][:48] for line in step["rows"].splitlines())
            material[step["whose"]] = "".join("".join(rows).split())
        elif step["spi"] not in found:
            whose = "initiator" if begun == (step["way"] == "out") else "responder"
            found[step["spi"]] = material[whose]
    return found


@pytest.mark.measures
def test_both_implementations_understand_each_other(ends: Ends) -> None:
    for _ in range(2):
        assert ping(ends.a, B) == 3
        assert ping(ends.b, A, "-I", B) == 3
        assert tcp(ends.a, ends.b, B, 1)["bits_per_second"] > 20e6
        assert tcp(ends.b, ends.a, A, 1)["bits_per_second"] > 20e6
        before = ends.counters()
        assert before.engine == "hawserd"
        ends.rekey("a")
        assert ping(ends.a, B) == 3
        ends.rekey("b")
        assert ping(ends.a, B) == 3
        assert ping(ends.b, A, "-s", "5000", "-I", B) == 3, "fragments"
        after = ends.counters()
        assert min(before.sealed.packets, before.opened.packets) > 1000
        assert after.sealed.packets >= before.sealed.packets + 9
    assert not ends.dropped()
    log = (ends.lab.directory / "logs" / "a.log").read_text()
    assert "established" in log
    assert not any(key[:8] in "".join(log.split()) for key in ends.associations().values())


def test_tshark_reads_what_is_sealed(ends: Ends, tmp_path: Path) -> None:
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    assert ping(ends.a, B) == 3
    ends.rekey("b")
    assert ping(ends.a, B, "-s", "1372") == 3
    capture.stop()
    fields = ["esp.spi", "esp.sequence", "icmp.type", "_ws.expert.severity", "_ws.malformed"]
    rows = [row for row in decrypted(file, ends.associations(), fields) if row["esp.spi"]]
    assert [row["icmp.type"] for row in rows] == ["8", "0"] * 6
    assert not any(row["_ws.malformed"] for row in rows)
    severe = [row for row in rows if int(row["_ws.expert.severity"] or "0", 0) >= 0x600000]
    assert not severe, "no warning and no error"
    sent = [row for row in rows if row["icmp.type"] == "8"]
    assert [int(row["esp.sequence"]) for row in sent] == [1, 2, 3, 1, 2, 3]
    assert len({row["esp.spi"] for row in sent}) == 2


@pytest.mark.parametrize("ends", [200], indirect=True)
def test_keys_are_renewed_after_so_many_packets(ends: Ends, tmp_path: Path) -> None:
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    sent = ends.a.run(["ping", "-q", "-c", "600", "-i", "0.002", B], timeout=60).stdout
    assert " 0% packet loss" in sent
    assert not ends.dropped()
    finish(capture)
    fields = ["esp.spi", "esp.sequence", "ip.src"]
    rows = list(decrypted(file, {}, fields))
    address = str(ends.lab.plan.addresses["a"])
    numbers = [
        int(row["esp.sequence"]) for row in rows if row["ip.src"] == address and row["esp.spi"]
    ]
    assert len(numbers) == 600
    assert numbers.count(1) >= 2, "a key did not serve for all"
    assert max(numbers) < 400


def test_code_points_are_copied_to_the_outside(ends: Ends, tmp_path: Path) -> None:
    cut = ["ethtool", "-K", "f0", "tx-udp-segmentation", "off"]  # else batches are captured whole
    ends.a.run(cut, timeout=60)
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    for tos in ("0xb8", "0x28", "0x02", "0xbb"):
        assert ping(ends.a, B, "-Q", tos) == 3
    script = (
        "import socket\n"
        "s = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]\n"
        "s[1].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x48)\n"
        f"for n in range(40): s[n // 4 % 2].sendto(bytes(500), ({B!r}, 9))\n"
    )
    ends.a.run(["python3", "-c", script], timeout=60)
    until(lambda: ends.counters().sealed.packets >= 3 * 4 + 40)
    finish(capture)
    fields = ["esp.spi", "ip.src", "ip.dsfield"]
    outer = list(decrypted(file, ends.associations(), fields, "f"))
    inner = list(decrypted(file, ends.associations(), fields, "l"))
    address = str(ends.lab.plan.addresses["a"])
    seen = [
        (around["ip.dsfield"], each["ip.dsfield"])
        for around, each in zip(outer, inner, strict=True)
        if around["esp.spi"] and around["ip.src"] == address and each["ip.src"] == A
    ]
    assert len(seen) == 3 * 4 + 40
    assert all(outside == inside for outside, inside in seen)
    assert {outside for outside, _ in seen} == {"0xb8", "0x28", "0x02", "0xbb", "0x48", "0x00"}


def captured(ends: Ends, file: Path) -> Background:
    """Begin to capture what passes between the ends."""
    # In immediate mode packets of any length have room for the longest: 2 MiB are for few of them.
    options = ["--immediate-mode", "-B", "32768", "-U", "-i", "near", "-w", str(file)]
    capture = ends.b.start(["tcpdump", *options, "udp port 4500"])
    until(lambda: file.exists() and file.stat().st_size > 0)
    return capture


def finish(capture: Background) -> None:
    """End a capture when it has written what came; it is a little behind."""
    time.sleep(0.5)
    capture.stop()


def decrypted(
    file: Path, associations: Mapping[str, str], fields: list[str], which: str = "l"
) -> Iterator[dict[str, str]]:
    """Give fields of each packet of a capture; what is inside of ESP, as tshark decrypts it.

    Of fields that a packet has inside and outside, `which` is wanted: the first or the last.
    """
    preferences = ["esp.enable_encryption_decode:TRUE"]
    for spi, key in associations.items():
        cipher = "AES-GCM with 16 octet ICV [RFC4106]"
        preferences.append(f'uat:esp_sa:"IPv4","*","*","{spi}","{cipher}","0x{key}","NULL",""')
    options = [part for each in preferences for part in ("-o", each)]
    wanted = [part for field in fields for part in ("-e", field)]
    command = [
        "tshark",
        "-r",
        str(file),
        *options,
        "-T",
        "fields",
        "-E",
        f"occurrence={which}",
        *wanted,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        yield dict(zip(fields, line.split("\t"), strict=True))


INJECT = """
import json, socket, struct, sys
source, target, packets = json.loads(sys.argv[1])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for each in packets:
    payload = bytes.fromhex(each)
    udp = struct.pack("!HHHH", 4500, 4500, 8 + len(payload), 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                     socket.inet_aton(source), socket.inet_aton(target))
    raw.sendto(ip + udp + payload, (target, 0))
"""


def test_what_is_not_from_the_other_end_is_dropped_and_counted(ends: Ends, tmp_path: Path) -> None:
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    assert ping(ends.b, A, "-I", B) == 3
    capture.stop()
    command = ["tshark", "-r", str(file), "-Y", "esp", "-T", "fields", "-e", "udp.payload"]
    wanted = [*command, "-e", "ip.src"]
    rows = subprocess.run(wanted, capture_output=True, text=True, check=True).stdout.splitlines()
    address = str(ends.lab.plan.addresses["b"])
    sealed = next(payload for payload, source in map(str.split, rows) if source == address)
    ahead = f"{int(sealed[8:16], 16) + 100:08x}"
    cases = {
        "replayed": sealed,
        "unknown_spi": f"00000123{sealed[8:]}",
        "not_authentic": f"{sealed[:8]}{ahead}{sealed[16:]}",
        "malformed": sealed[:14],
    }
    for cause, packet in cases.items():
        inject(ends, [packet, packet])
        until(lambda cause=cause: ends.counters().drops[cause] == 2)
    inject(ends, ["ff", "ff" * 3, sealed[:32], f"{sealed[:-2]}00", "00", "", f"00000000{sealed}"])
    assert ping(ends.b, A, "-I", B) == 3
    assert ping(ends.a, B) == 3
    assert ends.end.running()


def inject(ends: Ends, packets: list[str]) -> None:
    """Send datagrams as if from charon's port at b."""
    addresses = ends.lab.plan.addresses
    what: list[Any] = [str(addresses["b"]), str(addresses["a"]), packets]
    ends.b.run(["python3", "-c", INJECT, json.dumps(what)], timeout=60)
