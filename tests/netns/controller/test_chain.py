"""A class passes a service function at its gateway, both ways, and nothing passes beside it.

 host 3                      gateway 1                                     gateway 2
+----------------+      +------------------------------+             +------------------+
| lan 10.1.0.5   |------| lan0 10.1.0.1     wa, wb     |--- WAN -----| lo 10.2.0.1      |
+----------------+      | fw0 192.0.2.1  fw1 192.0.2.5 |             +------------------+
                        +------+---------------+-------+
                               |               |
                        +------+---------------+-------+
                        | in 192.0.2.2   out 192.0.2.6 |   function 4, counts what it forwards
                        +------------------------------+

The WAN and the controller are those of tests/lab/controller/network.py.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyroute2 import netns

from hawser.agent.steering import Chains, UnreachedError
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.config.steering import Steering
from hawser.overlay.sdwan.gateway import configurations
from hawser.overlay.sdwan.network import fabric_of
from hawser.spec.overlay import ClassRule
from lab.controller.network import Deployment, network
from lab.namespace import Namespaces, run
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

HOST, FUNCTION = 3, 4
ENDS = ("-I", "10.1.0.5", "10.2.0.1")
PLACE = {
    "interface": "fw0",
    "next_hop": "192.0.2.2",
    "return_interface": "fw1",
    "return_next_hop": "192.0.2.6",
}
CHAIN = {"functions": {"firewall": {"b1": PLACE}}, "policy": {"II": {"chain": ["firewall"]}}}
_CONNECT = """
import socket, sys
with socket.create_connection(("10.2.0.1", 7100), 20) as stream:
    stream.sendall(b"to and fro")
    print(stream.recv(100).decode())
"""
_ECHO = """
import socket
with socket.create_server(("10.2.0.1", 7100)) as server:
    print("listening", flush=True)
    while True:
        stream, _ = server.accept()
        stream.sendall(stream.recv(100))
        stream.close()
"""


def test_a_class_passes_its_function_or_nothing(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        around(network)
        network.controller.begin()
        network.controller.patch({"overlay": {"branches": {"b1": {"lan": "lan0"}}}})
        network.join_all()
        until(network.connected, "every branch reaches every other")
        until(network.controller.settled)
        until(lambda: answered(network))
        assert forwarded(network) == (0, 0), "there is no chain yet"
        network.controller.patch(CHAIN)
        until(network.controller.settled, "the chain is kept")
        before = forwarded(network)
        assert answered(network)
        there, back = forwarded(network)
        assert there > before[0]
        assert back > before[1]
        echo = network.lab.start(2, sys.executable, "-c", _ECHO, stdout=-1)
        assert echo.stdout
        assert echo.stdout.readline() == "listening\n"
        assert "to and fro" in network.lab.at(HOST, sys.executable, "-c", _CONNECT)
        there_too, back_too = forwarded(network)
        assert there_too >= there + 4
        assert back_too >= back + 3
        steps = network.controller.ask("GET", "/v1/explain?source=b1&destination=b2")["steps"]
        assert "leaving b1 it passes firewall (policy.II.chain)" in steps
        nothing_passes_beside_it(network)
        network.controller.patch({"policy": None})
        until(network.controller.settled, "the chain is gone")
        last = forwarded(network)
        assert answered(network)
        assert forwarded(network) == last
        assert "hawser_chains" not in network.lab.at(1, "nft", "list", "tables")
        assert "1001:" not in network.lab.at(1, "ip", "rule")


def test_packets_are_refused_until_the_function_is_there(tmp_path: Path) -> None:
    """The agent starts before the interface to the function is there, as after a reboot."""
    firewall = {"name": "firewall"} | PLACE | {"return_interface": "fw0"}
    firewall["return_next_hop"] = PLACE["next_hop"]
    steering = Steering.model_validate({"lan": "lan0", "chains": {"II": [firewall]}})
    with Namespaces("hawserfw") as spaces:
        name = spaces.add(1)
        with ThreadPoolExecutor(1, initializer=lambda: netns.setns(name)) as inside:
            chains = Chains()
            with pytest.raises(UnreachedError, match="there is no interface fw0"):
                inside.submit(chains.apply, _config(), steering).result()
            assert spaces.at(1, "ip", "route", "show", "table", "18520").split()[0] == "unreachable"
            assert "fwmark 0x4858" in spaces.at(1, "ip", "rule")
            assert "goto outward" in spaces.at(1, "nft", "list", "table", "inet", "hawser_chains")
            spaces.at(1, "ip", "link", "add", "fw0", "type", "veth", "peer", "name", "out")
            spaces.at(1, "ip", "link", "set", "out", "up")
            spaces.at(1, "ip", "address", "add", "192.0.2.1/30", "dev", "fw0")
            spaces.at(1, "ip", "link", "set", "fw0", "up")
            inside.submit(chains.refresh).result()
            route = spaces.at(1, "ip", "route", "show", "table", "18520").splitlines()[0]
            assert route.startswith("default via 192.0.2.2 dev fw0")
            inside.submit(chains.apply, _config(), None).result()
            assert "0x4858" not in spaces.at(1, "ip", "rule")
            assert "hawser_chains" not in spaces.at(1, "nft", "list", "tables")


def _config() -> GatewayConfig:
    """Configuration of b1, with rules of all kinds."""
    classes = {
        "calls": {"protocol": "udp", "destination_ports": [5000, 5999], "type": "I"},
        "marked": {"dscp": 46, "source": "10.1.0.0/25", "type": "I"},
        "web": {"source_ports": [80, 80], "protocol": "tcp", "type": "III"},
        "pings": {"protocol": "icmp", "destination": "10.2.0.0/24", "type": "II"},
    }
    described = network((1, 2))
    overlay = described.overlay.model_copy(
        update={"classes": {name: ClassRule.model_validate(each) for name, each in classes.items()}}
    )
    changed = described.model_copy(update={"overlay": overlay})
    return configurations(fabric_of(changed))["b1"]


def nothing_passes_beside_it(network: Deployment) -> None:
    """Without the function, and without the interface to it; then it is there again."""
    network.lab.at(FUNCTION, "sysctl", "-qw", "net.ipv4.ip_forward=0")
    assert not answered(network)
    network.lab.at(FUNCTION, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    until(lambda: answered(network))
    network.lab.at(1, "ip", "link", "set", "fw0", "down")
    assert not answered(network)
    network.lab.at(1, "ip", "link", "set", "fw0", "up")
    until(lambda: answered(network), "the agent puts the route back")


def around(network: Deployment) -> None:
    """Put the host and the function beside gateway 1."""
    lab = network.lab
    gateway = lab.namespaces.name(1)
    host, function = lab.namespace(HOST), lab.namespace(FUNCTION)
    run("ip", "-n", gateway, "address", "delete", "10.1.0.1/32", "dev", "lo")
    lab.cable((1, "lan0", "10.1.0.1/24"), (HOST, "lan", "10.1.0.5/24"))
    lab.cable((1, "fw0", "192.0.2.1/30"), (FUNCTION, "in", "192.0.2.2/30"))
    lab.cable((1, "fw1", "192.0.2.5/30"), (FUNCTION, "out", "192.0.2.6/30"))
    run("ip", "-n", host, "route", "add", "default", "via", "10.1.0.1")
    run("ip", "-n", function, "route", "add", "10.1.0.0/24", "via", "192.0.2.1")
    run("ip", "-n", function, "route", "add", "10.2.0.0/24", "via", "192.0.2.5")
    lab.at(FUNCTION, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    lab.at(1, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
    lab.at(1, "sysctl", "-qw", "net.ipv4.conf.fw1.rp_filter=1")  # which the agent makes loose
    rules = "; ".join(f'iifname "{name}" counter' for name in ("in", "out"))
    table = f"chain seen {{ type filter hook forward priority filter; {rules}; }};"
    lab.at(FUNCTION, "nft", f"table ip seen {{ {table} }}")


def answered(network: Deployment) -> bool:
    return " 1 received" in network.lab.at(HOST, "ping", "-c", "1", "-W", "2", *ENDS, check=False)


def forwarded(network: Deployment) -> tuple[int, int]:
    """Packets that the function has forwarded, from the branch and to it."""
    table = network.lab.at(FUNCTION, "nft", "list", "table", "ip", "seen")
    parts = table.split("packets ")[1:]
    there, back = (int(part.split()[0]) for part in parts)
    return there, back
