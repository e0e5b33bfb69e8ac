"""An IPsec function of ours and strongSwan understand each other: keys, packets, code points.

   a 10.99.0.1, hawserd --- f0 ===== ESP in UDP ===== near --- charon, 10.99.0.2 b

Drawn in lab/function/ipsec.py.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.local import LocalLab
from hawser.node.netns.command import Background
from hawser.overlay.lab.plan import NetworkPlan
from lab.function.ipsec import A, B, Ends, tunnel
from lab.traffic.chains import kernel_counts, ping_all
from lab.traffic.counted import deliver
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = pytest.mark.root

BYTES = 2_000_000
"""Of a transfer: more than 1000 packets."""


@pytest.fixture
def ends(
    request: pytest.FixtureRequest, deploy: Callable[[NetworkPlan], LocalLab]
) -> Iterator[Ends]:
    """Give a tunnel; its parameter are the packets after which a renews the keys."""
    with tunnel(deploy, getattr(request, "param", None)) as made:
        yield made


def test_both_implementations_understand_each_other(ends: Ends) -> None:
    for _ in range(2):
        assert ping(ends.a, B) == 3
        assert ping(ends.b, A, B) == 3
        deliver(ends.a, ends.b, B, BYTES)
        deliver(ends.b, ends.a, A, BYTES)
        before = ends.counters()
        assert before.engine == "hawserd"
        ends.rekey("a")
        assert ping(ends.a, B) == 3
        ends.rekey("b")
        assert ping(ends.a, B) == 3
        assert ping_all(ends.b.namespace, A, 3, "-s", "5000", "-I", B) == 3, "fragments"
        after = ends.counters()
        assert min(before.sealed.packets, before.opened.packets) > 1000
        assert after.sealed.packets >= before.sealed.packets + 9
    assert not ends.dropped()
    log = (ends.lab.directory / "logs" / "a.log").read_text()
    assert "established" in log
    assert not any(key[:8] in "".join(log.split()) for key in ends.associations().values())


def test_no_packet_is_lost_while_keys_are_renewed(ends: Ends) -> None:
    for node in "ab" * 10:
        known = len(ends.associations())
        ends.rekey(node)
        assert ping(ends.a, B) == 3, ends.dropped()
        until(lambda known=known: len(ends.associations()) > known, "b has new keys")
    assert not ends.dropped()


def test_charon_has_ipv4_however_few_ports_are_free(
    deploy: Callable[[NetworkPlan], LocalLab],
) -> None:
    """`hawserd` takes seven of eight, so that one chosen for IPv6 alone would be taken."""
    with tunnel(deploy, ephemeral_ports=8) as ends:
        assert ping(ends.a, B) == 3
        assert "IPv4 disabled" not in (ends.lab.directory / "logs" / "a.log").read_text()


def test_tshark_reads_what_is_sealed(ends: Ends, tmp_path: Path) -> None:
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    # One after the other, so that each request is followed by its reply.
    assert [ping_all(ends.a.namespace, B, 1) for _ in range(3)] == [1, 1, 1]
    ends.rekey("b")
    until(lambda: renewed(ends, file, 1, "-s", "1372"), "a has the new key")
    assert ping_all(ends.a.namespace, B, 1, "-s", "1372") == 1
    echoes = kernel_counts(ends.a.namespace, "Icmp")["OutEchos"]
    finish(capture, file, 2 * echoes)
    fields = ["esp.spi", "esp.sequence", "icmp.type", "_ws.expert.severity", "_ws.malformed"]
    rows = [row for row in decrypted(file, ends.associations(), fields) if row["esp.spi"]]
    assert [row["icmp.type"] for row in rows] == ["8", "0"] * echoes
    assert not any(row["_ws.malformed"] for row in rows)
    severe = [row for row in rows if int(row["_ws.expert.severity"] or "0", 0) >= 0x600000]
    assert not severe, "no warning and no error"
    sent: dict[str, list[int]] = {}
    for row in rows[::2]:
        sent.setdefault(row["esp.spi"], []).append(int(row["esp.sequence"]))
    assert [numbers == list(range(1, len(numbers) + 1)) for numbers in sent.values()] == [True] * 2


@pytest.mark.parametrize("ends", [200], indirect=True)
def test_keys_are_renewed_after_so_many_packets(ends: Ends, tmp_path: Path) -> None:
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    address = str(ends.lab.plan.addresses["a"])
    for times in (1, 2):
        ends.a.run(["ping", "-q", "-c", "210", "-i", "0.002", B], timeout=60)
        # Of each key b has told two identifiers, one a direction.
        until(lambda times=times: len(ends.associations()) >= 2 * (times + 1), "b has a new key")
        until(lambda times=times: renewed(ends, file, times), "a has it too")
    sent = kernel_counts(ends.a.namespace, "Icmp")["OutEchos"]
    until(lambda: kernel_counts(ends.a.namespace, "Icmp")["InEchoReps"] == sent, "all are answered")
    assert not ends.dropped()
    finish(capture, file, 2 * sent)
    fields = ["esp.spi", "esp.sequence", "ip.src"]
    rows = list(decrypted(file, {}, fields))
    numbers = [
        int(row["esp.sequence"]) for row in rows if row["ip.src"] == address and row["esp.spi"]
    ]
    assert len(numbers) == sent
    assert numbers.count(1) >= 3, "a key did not serve for all"
    assert max(numbers) < 400


def test_code_points_are_copied_to_the_outside(ends: Ends, tmp_path: Path) -> None:
    file = tmp_path / "esp.pcap"
    capture = captured(ends, file)
    for tos in ("0xb8", "0x28", "0x02", "0xbb"):
        assert ping_all(ends.a.namespace, B, 3, "-Q", tos) == 3
    script = (
        "import socket\n"
        "s = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]\n"
        "s[1].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x48)\n"
        f"for n in range(40): s[n // 4 % 2].sendto(bytes(500), ({B!r}, 9))\n"
    )
    ends.a.run(["python3", "-c", script], timeout=60)
    until(lambda: ends.counters().sealed.packets >= 3 * 4 + 40)
    finish(capture, file, 3 * 4 * 2 + 40)
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
    """Begin to capture what passes between the ends, each datagram by itself."""
    cut = ["ethtool", "-K", "f0", "tx-udp-segmentation", "off"]  # else batches are captured whole
    ends.a.run(cut, timeout=60)
    # In immediate mode packets of any length have room for the longest: 2 MiB are for few of them.
    options = ["--immediate-mode", "-B", "32768", "-U", "-i", "near", "-w", str(file)]
    capture = ends.b.start(["tcpdump", *options, "udp port 4500"])
    until(lambda: file.exists() and file.stat().st_size > 0)
    return capture


def renewed(ends: Ends, file: Path, times: int, *options: str) -> bool:
    """Send an echo from a; whether a has sealed with so many keys after the first by then."""
    assert ping_all(ends.a.namespace, B, 1, *options) == 1
    address = str(ends.lab.plan.addresses["a"])
    return len({spi for source, spi in sealed(file) if source == address}) > times


def finish(capture: Background, file: Path, packets: int) -> None:
    """End a capture when it has written so many packets of ESP; it is a little behind."""
    until(lambda: len(sealed(file)) >= packets, f"{packets} packets are captured")
    capture.stop()


def sealed(file: Path) -> list[tuple[str, bytes]]:
    """Source and SPI of each packet of ESP in UDP that a capture has so far (RFC 3948)."""
    data, at, found = file.read_bytes(), 24, []
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        packet = data[at + 16 + 14 : at + 16 + length]
        at += 16 + length
        payload = packet[28:]
        if len(payload) > 8 and payload[:4] != bytes(4) and at <= len(data):
            found.append((socket.inet_ntoa(packet[12:16]), payload[:4]))
    return found


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
    assert ping(ends.b, A, B) == 3
    finish(capture, file, 6)
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
    assert ping(ends.b, A, B) == 3
    assert ping(ends.a, B) == 3
    assert ends.end.running()


def inject(ends: Ends, packets: list[str]) -> None:
    """Send datagrams as if from charon's port at b."""
    addresses = ends.lab.plan.addresses
    what: list[Any] = [str(addresses["b"]), str(addresses["a"]), packets]
    ends.b.run(["python3", "-c", INJECT, json.dumps(what)], timeout=60)
