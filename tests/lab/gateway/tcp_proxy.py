"""Two gateways with the TCP proxy of the `quic` transport, four paths, and a host behind each.

   number 3 (client)      number 1                         number 2            number 4 (server)
  +--------------+     +------------------+             +------------------+     +--------------+
  | lan 10.1.0.2 |-----| lan 10.1.0.1  gw |== 4 paths ==| gw  lan 10.2.0.1 |-----| lan 10.2.0.2 |
  +--------------+     +------------------+             +------------------+     +--------------+
    2001:db8:1::2        2001:db8:1::1                     2001:db8:2::1          2001:db8:2::2

The paths are those of `Lab.paths` (lab/gateway/pair.py). IPv6 is there where a test asks for it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
from typing import Any

from lab.gateway.pair import Gateway, Lab, pki
from lab.namespace import run
from lab.waiting import PATIENCE, until

PATHS = 4
RATES = (10, 10, 10, 10)
PORT = 7000
CLIENT, SERVER = 3, 4
ADDRESSES = {CLIENT: "10.1.0.2", SERVER: "10.2.0.2"}
IPV6 = {CLIENT: "2001:db8:1::2", SERVER: "2001:db8:2::2"}


def hosts(lab: Lab) -> None:
    """Put a host behind each gateway."""
    for number, gateway in ((CLIENT, 1), (SERVER, 2)):
        name = lab.namespace(number)
        lab.at(gateway, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        lab.cable((gateway, "lan", f"10.{gateway}.0.1/24"), (number, "lan", f"10.{gateway}.0.2/24"))
        run("ip", "-n", name, "route", "add", "default", "via", f"10.{gateway}.0.1")


def hosts_with_ipv6(lab: Lab) -> None:
    """Give the hosts and gateways IPv6 addresses as well."""
    for number, gateway in ((CLIENT, 1), (SERVER, 2)):
        net = f"2001:db8:{gateway}:"
        lab.at(gateway, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        for at, host in ((gateway, 1), (number, 2)):
            lab.at(at, "ip", "address", "add", f"{net}:{host}/64", "dev", "lan", "nodad")
        lab.at(number, "ip", "-6", "route", "add", "default", "via", f"{net}:1")


def gateways(
    lab: Lab, proxies: tuple[bool, bool] = (True, True), *, ipv6: bool = False
) -> tuple[Gateway, Gateway]:
    """Both gateways, started, with all paths up."""
    lab.paths(RATES)
    hosts(lab)
    if ipv6:
        hosts_with_ipv6(lab)
    files = pki(lab.folder, ["b1", "b2"])
    made = lab.gateway(1, 2), lab.gateway(2, 1)
    for gateway, proxied in zip(made, proxies, strict=True):
        name = gateway.config["branch"]
        gateway.config["tun"]["address"] = None
        gateway.config["transport"] = {"kind": "quic", "tls": files[name]}
        if proxied:
            gateway.config["transport"]["tcp_proxy"] = {"II": "tcp"}
        if ipv6:
            own, peer = gateway.config["id"], gateway.config["peers"][0]
            gateway.config["source6"] = f"2001:db8:{own}::1"
            peer["prefixes"].append(f"2001:db8:{peer['id']}::/64")
        gateway.start()
    wait_for_paths(*made, proxied=all(proxies))
    return made


def wait_for_paths(one: Gateway, two: Gateway, *, proxied: bool = True) -> None:
    until(lambda: min(one.subflows(), two.subflows()) >= PATHS, "all paths are up")
    if proxied:
        until(lambda: "daddr" in rules(one) and "daddr" in rules(two), "both intercept connections")


def rules(gateway: Gateway) -> str:
    """The rules by which a gateway intercepts connections."""
    listing = ("nft", "list", "table", "inet", "hawser_lane")
    return run("ip", "netns", "exec", gateway.namespace, *listing, check=False)


def proxy_counters(gateway: Gateway) -> dict[str, Any]:
    """Counters of the TCP proxy of the first group."""
    found: dict[str, Any] = gateway.group()["tcp_proxy"]
    return found


def flows(gateway: Gateway) -> int:
    found = gateway.get("/v1/status")["peers"][0]["groups"][0]["tcp_proxy_flows"]
    return int(found)


def start(
    lab: Lab, number: int, code: str, *arguments: str, port: int = PORT, stdin: int | None = None
) -> subprocess.Popen[str]:
    """Run Python in a namespace; what it prints can be read."""
    program = f"import socket, sys, time, hashlib, json\nport = {port}\n" + textwrap.dedent(code)
    command = (sys.executable, "-u", "-c", program, *arguments)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": stdin}
    return lab.start(number, *command, **pipes)


def said(process: subprocess.Popen[str], seconds: float = PATIENCE) -> str:
    """All that a program printed, when it has ended."""
    return process.communicate(timeout=seconds)[0].strip()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


LISTEN = """
server = socket.create_server(("", port), family=socket.AF_INET)
print("listens")
stream, client = server.accept()
"""

CONNECT = """
stream = socket.create_connection(("10.2.0.2", port), 120)
stream.settimeout(None)
"""
CONNECT6 = CONNECT.replace("10.2.0.2", IPV6[SERVER])


def listening(
    lab: Lab,
    code: str,
    *arguments: str,
    family: str = "AF_INET",
    **options: Any,  # noqa: ANN401
) -> subprocess.Popen[str]:
    """A server that takes one connection, and then does what `code` says."""
    listen = LISTEN.replace("AF_INET", family)
    server = start(lab, SERVER, listen + textwrap.dedent(code), *arguments, **options)
    assert line(server) == "listens"
    return server


def connecting(lab: Lab, code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401
    """A client that connects, and then does what `code` says."""
    return start(lab, CLIENT, CONNECT + textwrap.dedent(code), *arguments, **options)


SEND = """
data = bytes(range(251)) * 4000
digest = hashlib.sha256()
for n in range(int(sys.argv[1])):
    stream.sendall(data)
    digest.update(data)
stream.shutdown(socket.SHUT_WR)
"""

RECEIVE = """
seen = hashlib.sha256()
while part := stream.recv(1 << 16):
    seen.update(part)
"""

WAIT_FOR_RESET = """
try:
    while stream.recv(1 << 16):
        pass
    print("ended")
except ConnectionResetError:
    print("reset")
"""

RESET = """
import struct
stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
stream.close()
"""

ECHO = """
while part := stream.recv(1 << 16):
    stream.sendall(part)
"""

CHATTER = """
try:
    while True:
        stream.sendall(b"x")
        if not stream.recv(1):
            print("ended")
            break
        print("answered")
        time.sleep(0.05)
except ConnectionResetError:
    print("reset")
"""


def chatting(lab: Lab) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """A connection that carries bytes in both directions."""
    server = listening(lab, "try:\n" + textwrap.indent(textwrap.dedent(ECHO), "    ")
                       + "except ConnectionResetError:\n    print('reset')")  # fmt: skip
    client = connecting(lab, CHATTER)
    assert line(client) == "answered"
    return server, client


def transfer(lab: Lab, blocks: int = 1, port: int = PORT) -> str:
    """Send blocks of 1 004 000 bytes to the server; the digest of what has come."""
    server = listening(lab, RECEIVE + "print(seen.hexdigest())", port=port)
    said(connecting(lab, SEND, str(blocks), port=port))
    return said(server)


SEND_UNTIL_TOLD = """
import random, select
source, digest = random.Random(7), hashlib.sha256()
while not select.select([sys.stdin], [], [], 0)[0]:
    data = source.randbytes(1 << 16)
    stream.sendall(data)
    digest.update(data)
stream.shutdown(socket.SHUT_WR)
print(digest.hexdigest())
"""


def digest_of(blocks: int) -> str:
    """The digest of a transfer of this number of blocks."""
    return hashlib.sha256(bytes(range(251)) * 4000 * blocks).hexdigest()
