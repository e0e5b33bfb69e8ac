"""The OpenFlow switch on real packets: Open vSwitch, its controller, and the worked example.

   gw1             gw3             gw2
  mpa_0 (x)                       mpa_0 (y)
    |                               |
  [ovs]           [ovs]           [ovs]           ssc: controller of all three, over Unix sockets
    a --internet--- a --internet--- a             subflow 1: x > y 0x2004, on the WAN 0x2114

Drawn with addresses in lab/plans/switches.py. No gateway daemon runs: the tests send what it would.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hawser.control.client import ControlError
from hawser.driver.local import LocalDriver, LocalLab
from hawser.driver.parts import openvswitch
from hawser.node.netns import namespace
from hawser.openflow.errors import PER_SECOND
from hawser.overlay.config.entry import EntryOutput
from hawser.overlay.config.openflow import ControllerConfig
from hawser.overlay.lab.plan import NetworkPlan
from lab.plans import switches
from lab.traffic.nodes import ping
from lab.traffic.openflow import (
    FULL,
    bridge,
    controller,
    counts,
    dumped,
    full_table,
    numbered,
    paced,
    process,
    ready,
)
from lab.waiting import until
from worked_example import PATHS, address, label

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(openvswitch.absent()), reason=f"needs Debian {openvswitch.PACKAGE}"),
]

THREE = {1: PATHS[1], 4: PATHS[4]}
"""A path through gateway 3 and a direct one."""
MB = 1_000_000

Deploy = Callable[[NetworkPlan], LocalLab]


@pytest.fixture
def lab(deploy: Deploy) -> LocalLab:
    return deploy(switches.plan(3, THREE))


def frames(lab: LocalLab, node: str, interface: str) -> socket.socket:
    """A socket that sends and receives whole frames."""

    def make() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        made.bind((interface, 0))
        made.settimeout(1)
        return made

    return namespace.inside(lab.nodes[node].namespace, make)


def test_tcp_through_a_transit_gateway_has_its_label_and_good_checksums_at_each_hop(
    lab: LocalLab, tmp_path: Path
) -> None:
    files = {node: tmp_path / f"{node}.pcap" for node in ("gw1", "gw3", "gw2")}
    captures = [
        lab.nodes[node].start(["tcpdump", "-i", "a", "-w", str(file), "-U", "-B", "16384", "tcp"])
        for node, file in files.items()
    ]
    until(lambda: all(file.exists() and file.stat().st_size for file in files.values()))
    with paced(lab) as going:
        going.carry(2 * MB)
    until(lambda: all(file.stat().st_size > 2 * MB for file in files.values()))
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
    """tshark's fields of every packet; checksum status 1 is good."""
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
    with numbered(lab, 2000) as flow:
        flow.more(500)
        flow.all_came()
    expected = (flow.sent, flow.sent * (100 + 28))
    for node in ("gw1", "gw3", "gw2"):
        until(lambda node=node: counts(lab, node)["m1 forward"] == expected)
    assert counts(lab, "gw1")["m4 forward"] == (0, 0)
    assert counts(lab, "gw1")["no_entry"] == 0


def test_pings_between_gateways_pass_but_nothing_is_relayed(lab: LocalLab) -> None:
    """Own traffic passes; forged packets are dropped, counted by cause, and never leave."""
    assert ping(lab.nodes["gw1"], address("3a"), address("1a")) == 3
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
        unknown = udp(address("1a"), address("3a"), 4000, label(1), station="02:00:00:00:00:09")
        other = bytes.fromhex("0200c612030202000000000186dd") + bytes(60)
        watch = [frames(lab, "internet", f"gw{n}-{p}") for n in (1, 2, 3) for p in "ab"]
        for frame in (*forged, fragment, later, unknown, other):
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
    """The router sends the error to branch 3, which sends it to 1, which sends it to its agent."""
    lab.nodes["internet"].run(["ip", "link", "set", "gw2-a", "mtu", "1280"], timeout=60)
    with paced(lab) as going:
        going.carry(2 * MB)
    for gateway in ("gw3", "gw1"):
        until(lambda gateway=gateway: icmp_errors(lab, gateway)["translated"] > 0)


def icmp_errors(lab: LocalLab, gateway: str) -> dict[str, int]:
    """ICMP errors that the controller received from a switch, by outcome."""
    listed = controller(lab).counters()["switches"]
    found: dict[str, int] = next(s["icmp_errors"] for s in listed if s["name"] == gateway)
    return found


def test_hostile_errors_are_counted_and_most_never_reach_the_controller(lab: LocalLab) -> None:
    chance = random.Random(6)  # noqa: S311 (the same packets every time)
    begun = time.monotonic()
    with numbered(lab, 200) as flow, frames(lab, "internet", "gw3-a") as wire:
        for _ in range(100):
            for _ in range(50):  # a switch's socket holds more
                wire.send(hostile(chance))
            flow.more(1)
        until(lambda: sum(icmp_errors(lab, "gw3").values()) > 10)
        until(lambda: icmp_errors(lab, "gw3")["malformed"] > 5)
        most = PER_SECOND * (time.monotonic() - begun + 1)  # and a burst of a second
        assert sum(icmp_errors(lab, "gw3").values()) < min(most, 4000)
        until(lambda: len(flow.came) > 0.9 * flow.sent)
    assert icmp_errors(lab, "gw3")["translated"] == 0
    assert lab.daemons["ssc"].restarts == 0
    assert ready(lab)


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
    config = controller(lab).config(ControllerConfig)
    with numbered(lab, 1000) as flow:
        flow.more(10)
        for turn in range(20):  # all flows change: sender address by class
            controller(lab).configure(classed(config, 0x10001 + turn))
            until(lambda: ready(lab))
            flow.more(10)
        flow.all_came()
    marked = dumped(lab, "gw1")
    assert marked.count("set_field:02:14:") == 4, marked


def classed(config: ControllerConfig, class_id: int) -> ControllerConfig:
    """The same, but all that leaves by a WAN port is of this class."""
    changed = config.model_dump(mode="json")
    for switch in changed["switches"]:
        for entry in switch["entries"]:
            if entry["output"] != "agent":
                entry["output"]["class"] = class_id
    return ControllerConfig.model_validate(changed)


def test_a_full_table_comes_and_loses_nothing(lab: LocalLab) -> None:
    """15 branches, 16 groups, 16 paths, both directions at one gateway; 14 400 flows."""
    config = full_table(lab)
    with numbered(lab, 200) as flow:
        flow.more(10)
        controller(lab).configure(config)
        until(lambda: ready(lab))
        flow.more(10)
        flow.all_came()
    assert dumped(lab, "gw3").count("nw_src=203.0.") == 2 * FULL


def test_the_switch_goes_on_without_its_controller_which_finds_it_as_it_left_it(
    lab: LocalLab,
) -> None:
    ssc = lab.daemons["ssc"]
    with numbered(lab, 200) as flow:
        until(lambda: counts(lab, "gw3")["m1 forward"][0] > 0)
        os.kill(ssc.pid, signal.SIGSTOP)
        flow.more(40)
        os.kill(ssc.pid, signal.SIGKILL)
        until(lambda: ssc.restarts == 1 and ready(lab))
        flow.more(200)
        flow.all_came()
    until(lambda: counts(lab, "gw3")["m1 forward"][0] == flow.sent)  # counted all along
    log = (lab.directory / "logs" / "ssc.log").read_text()
    assert log.count("switch gw3:") == 1, log  # installed once, and never again


def test_a_restarted_switch_gets_its_entries_back_and_tcp_survives(lab: LocalLab) -> None:
    assert lab.faults() == ()
    vswitchd, wanted = process(lab, "gw3-ofs"), cookies(lab, "gw3")
    with paced(lab) as going:
        going.carry(MB)
        os.kill(vswitchd.pid, signal.SIGKILL)
        until(lambda: vswitchd.restarts == 1)
        until(lambda: ready(lab) and cookies(lab, "gw3") == wanted)
        going.carry(2 * MB)  # more than can have been in flight
        until(lambda: counts(lab, "gw3")["m1 forward"][0] > 0)
    assert ready(lab)  # still: the connection before has nothing more to say
    assert any("gw3-ofs died" in fault for fault in lab.faults()), "a trial would be void"


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
    with numbered(lab, 200) as flow:
        flow.more(10)
        os.kill(database.pid, signal.SIGKILL)
        until(lambda: database.restarts == 1)
        flow.more(400)  # two seconds: the switch finds its database again
        flow.all_came()
    assert ready(lab)


def test_flows_that_others_change_are_put_right(lab: LocalLab) -> None:
    node, wanted = lab.nodes["gw3"], cookies(lab, "gw3")
    node.run(bridge(lab, "gw3", "del-flows"), timeout=60)
    node.run(bridge(lab, "gw3", "add-flow", "priority=9,actions=NORMAL"), timeout=60)
    until(lambda: cookies(lab, "gw3") == wanted)


def cookies(lab: LocalLab, gateway: str) -> set[str]:
    return set(re.findall("cookie=(0x[0-9a-f]+)", dumped(lab, gateway)))


def test_wrong_configurations_change_nothing(lab: LocalLab) -> None:
    config = controller(lab).config(ControllerConfig)
    (first, *others) = config.switches
    lost = first.entries[0].model_copy(update={"output": EntryOutput(port="z")})
    wrong = first.model_copy(update={"entries": (lost, *first.entries[1:])})
    with pytest.raises(ControlError, match=r"422: switches.0.* found port 'z'"):
        controller(lab).configure(config.model_copy(update={"switches": (wrong, *others)}))
    with pytest.raises(ControlError, match=r"422: .*the same switches"):
        controller(lab).configure(config.model_copy(update={"switches": ()}))
    assert ready(lab)
    assert len(controller(lab).config(ControllerConfig).switches) == 3


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
