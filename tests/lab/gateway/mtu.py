"""`quic` paths of any MTU between two gateways (labs drawn in lab/gateway/pair.py)."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
import sys
from typing import Any

from lab.gateway.pair import Gateway, Lab, pki
from lab.waiting import until

FRAMING = 44
"""Bytes that QUIC and the header before each packet take of a datagram, at most."""


def headers(*, v6: bool) -> int:
    """Bytes of IP and UDP before a datagram."""
    return 48 if v6 else 28


def carried(outer: int, *, v6: bool = False) -> int:
    """The largest inner packet that goes whole over a path of this MTU, bytes."""
    return outer - headers(v6=v6) - FRAMING


def start_quic(lab: Lab, **changes: Any) -> tuple[Gateway, Gateway]:  # noqa: ANN401 (JSON)
    """Both gateways, started, with all paths up.

    Args:
        lab: where.
        changes: to both configurations; `transport`: to that section; `configs`: by number.
    """
    files = pki(lab.folder, ["b1", "b2"])
    settings, configs = changes.pop("transport", {}), changes.pop("configs", {})
    one, two = lab.gateway(1, 2, **changes), lab.gateway(2, 1, **changes)
    for number, gateway in enumerate((one, two), start=1):
        gateway.config |= configs.get(number, {})
        name = gateway.config["branch"]
        gateway.config["transport"] = {"kind": "quic", "tls": files[name], **settings}
        gateway.start()
    paths = len(one.config["peers"][0]["groups"][0]["paths"])
    until(lambda: min(one.subflows(), two.subflows()) >= paths, f"{paths} paths are up")
    return one, two


def set_mtu(lab: Lab, mtu: int, interface: str = "wa", numbers: tuple[int, ...] = (1, 2)) -> None:
    """Let interfaces carry IP packets of at most so many bytes."""
    for number in numbers:
        lab.at(number, "ip", "link", "set", interface, "mtu", str(mtu))


def device_mtu(lab: Lab, number: int) -> int:
    """MTU of a gateway's TUN device."""
    return int(json.loads(lab.at(number, "ip", "-j", "link", "show", "hawser0"))[0]["mtu"])


def follows(lab: Lab, mtu: int, numbers: tuple[int, ...] = (1, 2)) -> None:
    """Wait until devices have an MTU, within the three bytes that a search leaves open."""
    until(
        lambda: all(mtu - 3 <= device_mtu(lab, number) <= mtu for number in numbers),
        f"the devices have an MTU of {mtu}",
    )


def told(lab: Lab, size: int, to: str = "10.2.0.1", number: int = 1) -> int | None:
    """Ping with packets of `size` bytes and DF set; the MTU that was told, if any."""
    host = ipaddress.ip_address(to)
    payload = size - (48 if host.version == 6 else 28)
    command = ("ping", f"-{host.version}", "-M", "do", "-c", "3", "-i", "0.3", "-W", "1")
    inside = lab.namespaces.inside(number, *command, "-s", str(payload), to)
    found = subprocess.run(inside, capture_output=True, text=True, check=False)
    values = re.findall(r"mtu ?[=:] ?(\d+)", found.stdout + found.stderr)
    return int(values[-1]) if values else None


def with_hosts(lab: Lab) -> Lab:
    """Add a host behind each gateway, namespaces 3 and 4, of which the first hears no ICMP errors.

    3 10.1.0.2 -- lan0 10.1.0.1 (gateway 1)      (gateway 2) 10.2.0.1 lan0 -- 10.2.0.2 4
    """
    for host, gateway in ((3, 1), (4, 2)):
        lab.namespace(host)
        lan = f"10.{gateway}.0"
        lab.cable((host, "lan", f"{lan}.2/24"), (gateway, "lan0", f"{lan}.1/24"))
        lab.at(host, "ip", "route", "add", "default", "via", f"{lan}.1")
        lab.at(gateway, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    rules = "table ip deaf {\nchain input {\ntype filter hook input priority 0\nicmp type destination-unreachable drop\n}\n}\n"  # noqa: E501
    (lab.folder / "deaf.nft").write_text(rules)
    lab.at(3, "nft", "-f", str(lab.folder / "deaf.nft"))
    return lab


BEHIND_LAN = {"tun": {"name": "hawser0", "mtu": 1500}}
"""Settings of a gateway whose address is on its LAN."""


_ANSWER = """
import socket
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("", 9))
print("listening", flush=True)
while True:
    data, sender = own.recvfrom(65535)
    own.sendto(str(len(data)).encode(), sender)
"""

_ASK = """
import socket, sys
to, size, discover, count = sys.argv[1], *map(int, sys.argv[2:])
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.IPPROTO_IP, 10, discover)  # IP_MTU_DISCOVER
own.settimeout(1)
answered = 0
for _ in range(count):
    own.sendto(bytes(size), (to, 9))
    try:
        answered += int(own.recv(100)) == size
    except TimeoutError:
        pass
print(answered)
"""

MAY_BE_FRAGMENTED = 0
"""`IP_PMTUDISC_DONT`: DF is not set."""
HEARS_NOTHING = 3
"""`IP_PMTUDISC_PROBE`: DF is set, and what is told of the path's MTU is ignored."""


def datagrams(
    lab: Lab, size: int, discover: int, count: int = 10, *, hosts: tuple[int, int]
) -> int:
    """Send datagrams of `size` bytes of payload between namespaces; how many came whole."""
    source, target = hosts
    server = lab.start(target, sys.executable, "-c", _ANSWER, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline()
    to = f"10.2.0.{1 if target == 2 else 2}"
    found = lab.at(source, sys.executable, "-c", _ASK, to, str(size), str(discover), str(count))
    server.kill()
    return int(found)


def stream(lab: Lab, size: str, *, hosts: tuple[int, int], seconds: int = 60) -> dict[str, Any]:
    """Send so many bytes (`8M`) of TCP between hosts by iperf3; it must end in time."""
    source, target = hosts
    server = lab.start(target, "iperf3", "-s", "-1", "-J", stdout=subprocess.DEVNULL)
    until(lambda: ":5201" in lab.at(target, "ss", "-Hltn"), "iperf3 listens")
    command = ("iperf3", "-c", "10.2.0.2", "-J", "-n", size)
    inside = lab.namespaces.inside(source, *command)
    done = subprocess.run(inside, capture_output=True, text=True, timeout=seconds, check=True)
    server.wait(seconds)
    found: dict[str, Any] = json.loads(done.stdout)
    assert "error" not in found, found["error"]
    return found
