"""Five gateways around a router, each with two WAN ports, as in document 004, figure 4(a).

   hawsergw-PID-N-n  (n = 1 .. 5)                   hawsergw-PID-N-0
  +------------------------------+              +---------------------+
  | hawser0       10.n.0.1/24    |              |      the internet   |
  |   hawserd gateway (bn)       |              |                     |
  | wa            198.18.n1.2/24 |--------------| ina  198.18.n1.1/24 |
  | wb            198.18.n2.2/24 |--------------| inb  198.18.n2.1/24 |
  +------------------------------+              +---------------------+

With IPv6, ports have 2001:db8:nk::2/64 besides, and the router ::1, where k is 1 or 2. A path is
written with the ports it leaves by and arrives at: `1a>3a>3a>2a`.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lab.gateway.pair import Gateway, Lab
from lab.namespace import run
from lab.waiting import PATIENCE, until

BRANCHES = range(1, 6)

WORKED_EXAMPLE = {
    1: ("1a", "2a", "1a>3a>3a>2a"),
    2: ("1b", "2a", "1b>4a>4b>2a"),
    3: ("1a", "2b", "1a>5a>5a>2b"),
    4: ("1b", "2b", "1b>2b"),
}
"""Section III.D: the subflows of path group 4 between branches 1 and 2, as pair and path."""

Paths = Mapping[int, tuple[str, str, str]]


Family = Literal[4, 6]
"""Version of IP of the tunnels' packets."""


def address(port: str, family: Family = 4) -> str:
    """Address of a port such as `3a`."""
    network = f"{port[0]}{'ab'.index(port[1]) + 1}"
    return f"198.18.{network}.2" if family == 4 else f"2001:db8:{network}::2"


def next_hop(port: str, family: Family = 4) -> str:
    """Router of a port."""
    return address(port, family)[:-1] + "1"


def switched(lab: Lab, branches: Sequence[int] = BRANCHES) -> Lab:
    """Make the namespaces and cables."""
    lab.namespace(0)
    lab.at(0, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for number in branches:
        name = lab.namespace(number)
        lab.at(number, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")
        for letter in "ab":
            port = f"{number}{letter}"
            here = (number, f"w{letter}", f"{address(port)}/24")
            lab.cable(here, (0, f"i{port}", f"{next_hop(port)}/24"))
            table = str(100 + "ab".index(letter))
            via = ("default", "via", next_hop(port), "dev", f"w{letter}")
            run("ip", "-n", name, "route", "add", *via, "table", table)
            run("ip", "-n", name, "rule", "add", "from", address(port), "table", table)
            run("ip", "-n", name, "route", "add", *via, "metric", table)
        limits = ("subflow", "8", "add_addr_accepted", "8")
        run("ip", "-n", name, "mptcp", "limits", "set", *limits)
    lab.wans = {n: [address(f"{n}a"), address(f"{n}b")] for n in branches}
    return lab


def add_ipv6(lab: Lab) -> None:
    """Give all ports IPv6 addresses besides, and routes by their source."""
    lab.at(0, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    for number, letter in itertools.product(lab.wans, "ab"):
        port, name, wan = f"{number}{letter}", f"{lab.prefix}-{number}", f"w{letter}"
        own, router = address(port, 6), next_hop(port, 6)
        for place, end, host in ((name, wan, own), (f"{lab.prefix}-0", f"i{port}", router)):
            run("ip", "-n", place, "addr", "add", f"{host}/64", "dev", end, "nodad")
        table = str(100 + "ab".index(letter))
        via = ("default", "via", router, "dev", wan)
        run("ip", "-6", "-n", name, "route", "add", *via, "table", table)
        run("ip", "-6", "-n", name, "rule", "add", "from", own, "table", table)
        run("ip", "-6", "-n", name, "route", "add", *via, "metric", table)


def endpoints(lab: Lab, source: int, destination: int) -> None:
    """Let the kernel make a subflow between each pair of ports of two branches."""
    for number, flags in ((source, ("subflow", "fullmesh")), (destination, ("signal",))):
        name = f"{lab.prefix}-{number}"
        for port, wan in zip(lab.wans[number], ("wa", "wb"), strict=True):
            run("ip", "-n", name, "mptcp", "endpoint", "add", port, "dev", wan, *flags)


def _entry(name: str, match: dict[str, Any], write: dict[str, Any], output: object) -> Any:  # noqa: ANN401 (JSON)
    return {"name": name, "match": match, "write": write, "output": output}


def entries(group: int, paths: Paths, family: Family = 4) -> dict[int, list[dict[str, Any]]]:
    """The entries of each branch for member paths of one group, in both directions."""

    def ends_of(source: str, destination: str) -> dict[str, Any]:
        return {"source": address(source, family), "destination": address(destination, family)}

    found: dict[int, list[dict[str, Any]]] = {n: [] for n in BRANCHES}
    for member, (x, y, path) in paths.items():
        ports = path.split(">")
        source, destination = int(ports[0][0]), int(ports[-1][0])
        agent = destination << 12 | group
        label = agent | source << 8 | (member % 16) << 4
        for forward in (True, False):
            ends = (x, y) if forward else (y, x)
            way = ports if forward else ports[::-1]
            steps = [
                ("agent", *ends, agent),
                *(("wan", *way[i : i + 2], label) for i in range(0, len(way), 2)),
            ]
            results = [
                *((*way[i : i + 2], label, {"port": way[i]}) for i in range(0, len(way), 2)),
                (*ends, agent, "agent"),
            ]
            what = "destination_port" if forward else "source_port"
            direction = "forward" if forward else "return"
            owners = [int(way[0][0]), *(int(p[0]) for p in way[1::2])]
            for owner, (origin, a, b, port), (c, d, new, output) in zip(
                owners, steps, results, strict=True
            ):
                match = {"from": origin, **ends_of(a, b)}
                write = {**ends_of(c, d), "port": new}
                name = f"b{source}>b{destination} g{group} m{member} {direction} at b{owner}"
                found[owner].append(_entry(name, match | {what: port}, write, output))
    return found


def switch(number: int, found: list[dict[str, Any]], family: Family = 4) -> dict[str, Any]:
    """The `switch` section of a branch."""

    def ipv6(port: str) -> dict[str, str]:
        given = {"address6": address(port, 6), "next_hop6": next_hop(port, 6)}
        return given if family == 6 else {}

    ports = [
        {
            "name": f"{number}{letter}",
            "interface": f"w{letter}",
            "address": address(f"{number}{letter}"),
            "next_hop": next_hop(f"{number}{letter}"),
            "type": "internet",
            **ipv6(f"{number}{letter}"),
        }
        for letter in "ab"
    ]
    return {"kind": "bpf", "ports": ports, "entries": found}


def gateways(lab: Lab, group: int, paths: Paths, family: Family = 4) -> dict[int, Gateway]:
    """Gateways of all branches, not started: 1 and 2 are peers, the others only transit."""
    found = entries(group, paths, family)
    made = {}
    for number in lab.wans:
        other = {1: 2, 2: 1}.get(number, 1)
        gateway = lab.gateway(number, other, switch=switch(number, found[number], family))
        if number > 2:
            gateway.config["peers"] = []
        else:
            pairs = [(x, y) if number == 1 else (y, x) for x, y, _ in paths.values()]
            members = [
                {"local": address(a, family), "remote": address(b, family)} for a, b in pairs
            ]
            gateway.config["peers"][0]["groups"] = [{"id": group, "paths": members}]
        made[number] = gateway
    return made


def start(made: dict[int, Gateway], subflows: int) -> None:
    """Start gateways, and wait until branch 1 has this number of subflows."""
    for number in sorted(
        made, reverse=True
    ):  # the kernel tries a subflow only once, so transit gateways start first
        made[number].start()
    until(lambda: made[1].subflows() == subflows, f"{subflows} subflows")


VIA_3 = {1: ("1a", "2a", "1a>3a>3b>2a")}
"""One path, through branch 3."""


def worked_example(lab: Lab) -> dict[int, Gateway]:
    """The worked example of document 004, section III.D, running."""
    switched(lab)
    endpoints(lab, 1, 2)
    made = gateways(lab, 4, WORKED_EXAMPLE)
    start(made, 4)
    return made


def transit_example(lab: Lab, family: Family = 4) -> dict[int, Gateway]:
    """One path through branch 3, running."""
    switched(lab, (1, 2, 3))
    if family == 6:
        add_ipv6(lab)
    made = gateways(lab, 4, VIA_3, family)
    start(made, 1)
    return made


def counters(gateway: Gateway) -> tuple[dict[str, int], dict[str, int]]:
    """Packets of each entry, and drops by cause."""
    found = gateway.get("/v1/counters")["switch"]
    return {e["name"]: e["packets"] for e in found["entries"]}, found["drops"]


@dataclass(frozen=True)
class Capture:
    """A capture under way."""

    process: subprocess.Popen[str]
    file: Path

    def packets(self) -> int:
        """How many have been written so far (file format: man 5 pcap-savefile)."""
        data, found, at = self.file.read_bytes(), 0, 24
        while at + 16 <= len(data):
            at += 16 + int.from_bytes(data[at + 8 : at + 12], sys.byteorder)
            found += at <= len(data)
        return found


def sniff(lab: Lab, number: int, interface: str, expression: str) -> Capture:
    """Start to capture the packets that match an expression."""
    file = lab.folder / f"capture-{len(lab.processes)}.pcap"
    options = ("--immediate-mode", "-U", "-w", str(file), "-i", interface)
    process = lab.start(number, "tcpdump", *options, expression, stderr=subprocess.PIPE)
    assert process.stderr
    while "listening on" not in process.stderr.readline():
        if process.poll() is not None:
            raise RuntimeError("tcpdump ended")
    return Capture(process, file)


def seen(capture: Capture, packets: int = 0, family: Family = 4) -> list[list[str]]:
    """End it when at least so many packets are there, and nothing more comes. Of each packet, as
    tshark reads it: addresses, ports, whether checksums are good (1), time to live or hop limit.
    """
    until(lambda: capture.packets() >= packets, f"{packets} packets are captured")
    size = -1
    while size != (size := capture.file.stat().st_size):
        time.sleep(0.4)
    capture.process.send_signal(signal.SIGINT)
    capture.process.communicate(timeout=PATIENCE)
    ports = ("tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport")
    sums = ("ip.checksum.status", "tcp.checksum.status", "udp.checksum.status")
    ip, ttl = ("ip", "ip.ttl") if family == 4 else ("ipv6", "ipv6.hlim")
    fields = (f"{ip}.src", f"{ip}.dst", *ports, *sums, ttl)
    options = [option for name in fields for option in ("-e", name)]
    checks = ("ip.check_checksum:TRUE", "tcp.check_checksum:TRUE", "udp.check_checksum:TRUE")
    checking = [option for name in checks for option in ("-o", name)]
    text = run("tshark", "-r", str(capture.file), "-T", "fields", *options, *checking)
    return [line.split("\t") for line in text.splitlines()]
