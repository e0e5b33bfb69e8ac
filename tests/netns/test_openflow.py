"""The OpenFlow switch on real packets: Open vSwitch, its controller, and the worked example.

  gw1            gw3            gw2
mpa_0 (x)                     mpa_0 (y)
  |                             |
[ofs]          [ofs]          [ofs]
  a --internet-- a --internet-- a          subflow 1: x > y 0x2004, on the WAN 0x2114
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openflow_lab
import pytest
from waiting import until

from hawser.control.client import ControlError, DaemonClient
from hawser.driver import openvswitch
from hawser.driver.daemon import SupervisedProcess
from hawser.driver.local import LocalDriver, LocalLab
from hawser.node import namespace
from hawser.overlay.plan import NetworkPlan
from worked_example import AGENT, PATHS, address, label

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

THREE = {1: PATHS[1], 4: PATHS[4]}
"""A path through gateway 3 and a direct one."""
FULL = 15 * 16 * 16 * 2
"""Entries of the largest table."""

Deploy = Callable[[NetworkPlan], LocalLab]


@pytest.fixture
def lab(deploy: Deploy) -> LocalLab:
    return deploy(openflow_lab.plan(3, THREE))


def controller(lab: LocalLab) -> DaemonClient:
    return DaemonClient(lab.daemons["ssc"].control)


def counts(lab: LocalLab, gateway: str) -> dict[str, Any]:
    """Counters of a switch by name of entry or cause, as packets and bytes, or packets."""
    found = next(s for s in controller(lab).counters()["switches"] if s["name"] == gateway)
    entries = {each["name"]: (each["packets"], each["bytes"]) for each in found["entries"]}
    return {**entries, **found["drops"]}


def process(lab: LocalLab, name: str) -> SupervisedProcess:
    return next(each for each in lab.switches if each.name == name)


def udp_socket(lab: LocalLab, node: str) -> socket.socket:
    return namespace.inside(
        lab.nodes[node].namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )


def frames(lab: LocalLab, node: str, interface: str) -> socket.socket:
    """A socket that sends and takes whole frames."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        made.bind((interface, 0))
        made.settimeout(1)
        return made

    return namespace.inside(lab.nodes[node].namespace, make)


@contextmanager
def receiver(lab: LocalLab) -> Iterator[list[int]]:
    """Take numbered datagrams at gateway 2's agent port; gives the numbers that came."""
    came: list[int] = []
    ended = threading.Event()
    with udp_socket(lab, "gw2") as sock:
        sock.setsockopt(socket.SOL_SOCKET, 33, 8 * 1024 * 1024)  # SO_RCVBUFFORCE
        sock.bind((address("2a"), AGENT))
        sock.settimeout(0.1)

        def take() -> None:
            while not ended.is_set():
                try:
                    came.append(int.from_bytes(sock.recv(2048)[:4]))
                except TimeoutError:
                    continue

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield came
            settled = -1
            while settled != len(came):
                settled = len(came)
                time.sleep(0.3)
        finally:
            ended.set()
            thread.join()


@contextmanager
def stream(lab: LocalLab, rate: float) -> Iterator[list[int]]:
    """Send so many numbered datagrams a second by subflow 1; gives the numbers sent."""
    sent: list[int] = []
    ended = threading.Event()
    with udp_socket(lab, "gw1") as sock:
        sock.bind((address("1a"), 0))

        def send() -> None:
            while not ended.wait(1 / rate):
                sock.sendto(len(sent).to_bytes(4) + bytes(96), (address("2a"), AGENT))
                sent.append(len(sent))

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield sent
        finally:
            ended.set()
            thread.join()


@contextmanager
def iperf(lab: LocalLab, seconds: float, limit: str = "0") -> Iterator[dict[str, Any]]:
    """A TCP transfer by subflow 1 in the background; its report is there afterwards."""
    report: dict[str, Any] = {}
    server = lab.nodes["gw2"].start(["iperf3", "-s", "-1", "-p", str(AGENT)])
    try:
        until(lambda: str(AGENT) in lab.nodes["gw2"].run(["ss", "-ltn"], timeout=60).stdout)
        command = ["iperf3", "--json", "-c", address("2a"), "-B", address("1a"), "-p", str(AGENT)]
        client = lab.nodes["gw1"].start([*command, "-t", f"{seconds:g}", "-b", limit])
        try:
            yield report
            until(lambda: not client.running(), seconds + 15)
        finally:
            report |= json.loads(client.stop().stdout or "{}")
    finally:
        server.stop()


def goodput(report: Mapping[str, Any]) -> float:
    """Mbit/s as the receiver saw it."""
    assert "error" not in report, report["error"]
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


def test_tcp_through_a_transit_gateway_has_its_label_and_good_checksums_at_each_hop(
    lab: LocalLab, tmp_path: Path
) -> None:
    files = {node: tmp_path / f"{node}.pcap" for node in ("gw1", "gw3", "gw2")}
    captures = [
        lab.nodes[node].start(["tcpdump", "-i", "a", "-w", str(file), "-U", "-s", "0", "tcp"])
        for node, file in files.items()
    ]
    until(lambda: all(file.exists() and file.stat().st_size for file in files.values()))
    with iperf(lab, 1, "20M") as report:
        pass
    assert goodput(report) > 15
    time.sleep(0.5)
    for capture in captures:
        capture.stop()
    one, two, three = (address(f"{n}a") for n in (1, 2, 3))
    hops = {"gw1": {(one, three)}, "gw2": {(three, two)}, "gw3": {(one, three), (three, two)}}
    for node, expected in hops.items():
        seen = dissected(files[node])
        assert {(p["src"], p["dst"]) for p in seen if p["dstport"] == "8468"} == expected
        back = {(p["src"], p["dst"]) for p in seen if p["srcport"] == str(label(1))}
        assert back == {pair[::-1] for pair in expected}
        assert {p["tcp_ok"] + p["ip_ok"] for p in seen} == {"11"}, "a checksum is wrong"
        assert len(seen) > 1000


def dissected(file: Path) -> list[dict[str, str]]:
    """What tshark says of every packet; checksum status 1 is good."""
    names = ["src", "dst", "srcport", "dstport", "tcp_ok", "ip_ok", "malformed"]
    fields = ["ip.src", "ip.dst", "tcp.srcport", "tcp.dstport"]
    fields += ["tcp.checksum.status", "ip.checksum.status", "_ws.malformed"]
    options = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    command = ["tshark", "-r", str(file), *options, "-T", "fields"]
    command += [part for field in fields for part in ("-e", field)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = [dict(zip(names, line.split("\t"), strict=True)) for line in text.splitlines()]
    assert not any(packet["malformed"] for packet in found)
    return found


def test_counters_are_what_was_sent(lab: LocalLab) -> None:
    number, payload = 500, 100
    with receiver(lab) as came, udp_socket(lab, "gw1") as sock:
        sock.bind((address("1a"), 0))
        for n in range(number):
            sock.sendto(n.to_bytes(4) + bytes(payload - 4), (address("2a"), AGENT))
            time.sleep(0.0005)
    assert sorted(came) == list(range(number))
    expected = (number, number * (payload + 28))
    for node in ("gw1", "gw3", "gw2"):
        until(lambda node=node: counts(lab, node)["m1 forward"] == expected)
    assert counts(lab, "gw1")["m4 forward"] == (0, 0)
    assert counts(lab, "gw1")["no_entry"] == 0


def test_pings_between_gateways_pass_but_nothing_is_relayed(lab: LocalLab) -> None:
    """Own traffic passes; forged packets are dropped, counted by cause, and come out nowhere."""
    ping = ["ping", "-c", "2", "-i", "0.1", "-W", "1", "-I", address("1a"), address("3a")]
    assert lab.nodes["gw1"].run(ping, timeout=60, check=False).returncode == 0
    with frames(lab, "internet", "gw3-a") as wire:
        forged = [
            udp(address("2a"), address("3a"), 4000, label(1)),  # right label, wrong source
            udp(address("1a"), address("3a"), 4000, 0x2115),  # label of no path here
            udp(address("1a"), address("3b"), 4000, label(1)),  # at the wrong port
            udp(address("1a"), address("3a"), label(1), 1500),  # the same on the way back
            udp("9.9.9.9", "8.8.8.8", 4000, 53),  # to somebody else
            udp(address("1a"), "198.18.2.2", 4000, label(1)),
        ]
        fragment = udp(address("1a"), address("3a"), 4000, label(1), fragment=0x2000)
        later = udp(address("1a"), address("3a"), 4000, label(1), fragment=0x0010)
        stranger = udp(address("1a"), address("3a"), 4000, label(1), station="02:00:00:00:00:09")
        other = bytes.fromhex("0200c612030202000000000186dd") + bytes(60)
        watch = [frames(lab, "internet", f"gw{n}-{p}") for n in (1, 2, 3) for p in "ab"]
        for frame in (*forged, fragment, later, stranger, other):
            for _ in range(10):
                wire.send(frame)
        expected = {"no_entry": 60, "fragment": 20, "not_admitted": 20}
        until(lambda: expected.items() <= counts(lab, "gw3").items())
        assert counts(lab, "gw3")["m1 forward"] == (0, 0)
        for sniffer in watch:
            assert not [f for f in came_in(sniffer) if b"forged" in f]
            sniffer.close()
        wire.send(udp(address("1a"), address("3a"), 4000, label(1)))
        until(lambda: counts(lab, "gw3")["m1 forward"][0] == 1)


def came_in(sniffer: socket.socket) -> list[bytes]:
    """Frames that waited and were not sent from here (PACKET_OUTGOING is 4)."""
    sniffer.setblocking(False)
    found = []
    try:
        while True:
            frame, where = sniffer.recvfrom(2048)
            if where[2] != 4:
                found.append(frame)
    except BlockingIOError:
        return found


def udp(
    source: str,
    destination: str,
    source_port: int,
    port: int,
    *,
    fragment: int = 0,
    station: str = "02:00:c6:12:03:02",
) -> bytes:
    """A frame for gateway 3's port a, with a good IP checksum and none of UDP's."""
    payload = b"forged"
    body = struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    start = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(body), 1, fragment, 64, 17)
    words = struct.unpack("!9H", start + addresses)
    total = sum(words)
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ethernet = bytes.fromhex(station.replace(":", "") + "020000000001" + "0800")
    return ethernet + start + struct.pack("!H", check) + addresses + body


def test_a_smaller_mtu_in_the_internet_is_learnt_through_transit(lab: LocalLab) -> None:
    """The router tells branch 3, whose packet it was; that tells 1, and that its agent."""
    lab.nodes["internet"].run(["ip", "link", "set", "gw2-a", "mtu", "1280"], timeout=60)
    with iperf(lab, 2, "20M") as report:
        pass
    assert goodput(report) > 15
    for gateway in ("gw3", "gw1"):
        assert icmp_errors(lab, gateway)["translated"] > 0


def icmp_errors(lab: LocalLab, gateway: str) -> dict[str, int]:
    """ICMP errors that the controller had of a switch, by what became of them."""
    listed = controller(lab).counters()["switches"]
    found: dict[str, int] = next(s["icmp_errors"] for s in listed if s["name"] == gateway)
    return found


def test_hostile_errors_are_counted_and_most_never_reach_the_controller(lab: LocalLab) -> None:
    chance, number = random.Random(6), 5000  # noqa: S311 (the same packets every time)
    with receiver(lab) as came, stream(lab, 100) as sent, frames(lab, "internet", "gw3-a") as wire:
        for _ in range(number):
            wire.send(hostile(chance))
        time.sleep(1)
    assert 10 < sum(icmp_errors(lab, "gw3").values()) < 1000
    assert icmp_errors(lab, "gw3")["malformed"] > 5
    assert icmp_errors(lab, "gw3")["translated"] == 0
    assert lab.daemons["ssc"].restarts == 0
    assert ready(lab)
    assert len(came) > 0.9 * len(sent)


def hostile(chance: random.Random) -> bytes:
    """A frame with an ICMP error of random content for gateway 3's port a."""
    frame = bytearray(udp(address("1a"), address("3a"), 0x0304, 0))
    kind, at = chance.choice([3, 11, 12]), 14 + 20
    frame = frame[:at] + bytes([kind, 4, *chance.randbytes(chance.randrange(6, 600))])
    frame[16:18], frame[23] = (len(frame) - 14).to_bytes(2), 1
    frame[24:26] = bytes(2)
    total = sum(struct.unpack("!10H", frame[14:34]))
    frame[24:26] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2)
    return bytes(frame)


def test_entries_are_replaced_under_traffic_without_loss(lab: LocalLab) -> None:
    config = controller(lab).config()
    with receiver(lab) as came, stream(lab, 1000) as sent:
        time.sleep(0.3)
        for turn in range(20):
            for switch in config["switches"]:
                for entry in switch["entries"]:  # all flows change: sender address by class
                    if entry["output"] != "agent":
                        entry["output"]["class"] = 0x10001 + turn
            controller(lab).configure(config)
            time.sleep(0.02)
    assert len(sent) > 200, "ten and more at each replacement"
    assert sorted(came) == sent
    marked = lab.nodes["gw1"].run(dump(lab, "gw1"), timeout=60).stdout
    assert marked.count("set_field:02:14:") == 4, marked


@pytest.mark.measures
def test_a_full_table_comes_within_three_seconds_and_loses_nothing(
    lab: LocalLab,
) -> None:
    """15 branches, 16 groups, 16 paths, both directions at one gateway; 14 400 flows."""
    config = controller(lab).config()
    own = next(each for each in config["switches"] if each["name"] == "gw3")
    model = own["entries"][0]
    for number in range(FULL):
        other = copy.deepcopy(model)
        other["name"] = f"other {number}"
        other["match"]["source"] = f"203.0.{number // 200}.{number % 200 + 1}"
        own["entries"].append(other)
    with receiver(lab) as came, stream(lab, 200) as sent:
        time.sleep(0.3)
        start = time.monotonic()
        controller(lab).configure(config)
        took = time.monotonic() - start
        time.sleep(0.2)
    installed = lab.nodes["gw3"].run(dump(lab, "gw3"), timeout=60).stdout
    assert installed.count("nw_src=203.0.") == 2 * FULL
    assert sorted(came) == sent
    assert took < 3


def dump(lab: LocalLab, gateway: str) -> list[str]:
    socket_ = f"unix:{lab.directory / f'{gateway}.ofs' / 'ofs_br.mgmt'}"
    return ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", socket_]


def test_the_switch_goes_on_without_its_controller_which_finds_it_as_it_left_it(
    lab: LocalLab,
) -> None:
    ssc = lab.daemons["ssc"]
    with receiver(lab) as came, stream(lab, 200) as sent:
        time.sleep(1.5)
        os.kill(ssc.pid, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(ssc.pid, signal.SIGKILL)
        until(lambda: ssc.restarts == 1 and ssc.control.exists())
        until(lambda: ready(lab))
        time.sleep(1.5)
    assert sorted(came) == sent
    until(lambda: counts(lab, "gw3")["m1 forward"][0] == len(sent))  # counted all along
    log = (lab.directory / "logs" / "ssc.log").read_text()
    assert log.count("switch gw3:") == 1, log  # installed once, and never again


def ready(lab: LocalLab) -> bool:
    try:
        return controller(lab).status().connected
    except ControlError:
        return False


def test_a_restarted_switch_gets_its_entries_back_and_tcp_survives(lab: LocalLab) -> None:
    assert lab.faults() == ()
    with iperf(lab, 8, "20M") as report:
        time.sleep(1.5)
        vswitchd = process(lab, "gw3-ofs")
        os.kill(vswitchd.pid, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: vswitchd.restarts == 1)
        until(lambda: ready(lab) and counts(lab, "gw3")["m1 forward"][0] > 0)
        assert time.monotonic() - killed < 5
    assert ready(lab)  # still: the connection before has nothing more to say
    assert any("gw3-ofs died" in fault for fault in lab.faults()), "a trial would be void"
    assert goodput(report) > 12
    assert report["intervals"][-1]["sum"]["bits_per_second"] > 1e6


def test_connections_that_end_leave_nothing_in_the_controller(lab: LocalLab) -> None:
    vswitchd, ssc = process(lab, "gw3-ofs"), lab.daemons["ssc"]
    threads = len(list(Path(f"/proc/{ssc.pid}/task").iterdir()))
    for restarts in (1, 2):
        os.kill(vswitchd.pid, signal.SIGKILL)
        until(lambda n=restarts: vswitchd.restarts == n)
        until(lambda: ready(lab))
    until(lambda: len(list(Path(f"/proc/{ssc.pid}/task").iterdir())) == threads)


def test_a_restarted_database_is_no_matter(lab: LocalLab) -> None:
    database = process(lab, "gw3-ovsdb")
    with receiver(lab) as came, stream(lab, 200) as sent:
        os.kill(database.pid, signal.SIGKILL)
        until(lambda: database.restarts == 1)
        time.sleep(2)
    assert sorted(came) == sent
    assert ready(lab)


def test_flows_that_others_change_are_put_right(lab: LocalLab) -> None:
    node, command = lab.nodes["gw3"], dump(lab, "gw3")
    wanted = cookies(lab, "gw3")
    node.run([*command[:3], "del-flows", command[-1]], timeout=60)
    node.run([*command[:3], "add-flow", command[-1], "priority=9,actions=NORMAL"], timeout=60)
    until(lambda: cookies(lab, "gw3") == wanted)


def cookies(lab: LocalLab, gateway: str) -> set[str]:
    flows = lab.nodes[gateway].run(dump(lab, gateway), timeout=60).stdout
    return set(re.findall("cookie=(0x[0-9a-f]+)", flows))


def test_wrong_configurations_change_nothing(lab: LocalLab) -> None:
    config = controller(lab).config()
    config["switches"][0]["entries"][0]["output"] = {"port": "z", "class": None}
    with pytest.raises(ControlError, match=r"422: switches.0.* found port 'z'"):
        controller(lab).configure(config)
    config = controller(lab).config() | {"switches": []}
    with pytest.raises(ControlError, match=r"422: .*the same switches"):
        controller(lab).configure(config)
    assert ready(lab)
    assert len(controller(lab).config()["switches"]) == 3


def test_nothing_listens_on_the_network(lab: LocalLab) -> None:
    for node in ("ssc", "gw1"):
        assert not lab.nodes[node].run(["ss", "-Hltun"], timeout=60).stdout
    for file in (lab.daemons["ssc"].control, lab.directory / "gw1.ofs" / "of"):
        assert file.stat().st_mode & 0o077 == 0


def test_nothing_is_left(driver: LocalDriver, lab: LocalLab) -> None:
    pids = [each.pid for each in (*lab.switches, lab.daemons["ssc"])]
    driver.destroy(lab.name)  # as after a crash: by name alone
    until(lambda: not any(alive(pid) for pid in pids))
    assert not lab.directory.exists()
    assert lab.name not in driver.labs()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
