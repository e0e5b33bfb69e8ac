"""Service chains of `hawserd function`, made with `ip` and `ethtool` alone.

   PREFIX-client        PREFIX-sff                    PREFIX-server
  +--------------+     +------------------------+    +--------------+
  | c0 10.0.0.1  |-----| client          server |----| s0 10.0.0.2  |
  +--------------+     |      f1   f2  ...      |    +--------------+
                       +-------|----|-----------+
                             +----+
                             | f0 |  PREFIX-f1, -f2, ...: a function each
                             +----+

Packets from the client take path 1, packets from the server path 2, which is path 1 backwards.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.daemon import Daemon
from lab.namespace import Namespaces, run
from lab.traffic.chains import ping_all

FORWARD, REVERSE = 1, 2
"""Identifiers of the two paths."""


class Node(Daemon):
    """A `hawserd function` in a namespace."""

    def __init__(self, namespace: str, kind: str, config: dict[str, Any], folder: Path) -> None:
        super().__init__(namespace, f"function {kind}", config, folder, namespace)

    def counters(self) -> dict[str, Any]:
        """What it has counted."""
        return dict(self.get("/v1/counters"))


class Chain:
    """Client, forwarder, server and functions, whose daemons run unless `start` is false."""

    def __init__(self, functions: int, transport: str = "ethernet", *, start: bool = True) -> None:
        self._namespaces = Namespaces("hawserch")
        self.length = functions
        self._starts = start
        self.transport = transport
        self._folder = tempfile.TemporaryDirectory(prefix="hawserch-")
        self.folder = Path(self._folder.name)
        self.sff = self._node("sff", "sff", self.forwarder())
        self.functions = [
            self._node(f"f{number}", "forwarder", self.function(number))
            for number in range(1, functions + 1)
        ]

    def __enter__(self) -> Chain:
        try:
            self._build()
            if self._starts:
                self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in (*self.functions, self.sff):
            node.stop(signal.SIGKILL)
        self._namespaces.__exit__()
        self._folder.cleanup()

    def start(self) -> None:
        """Start every node."""
        for node in (*self.functions, self.sff):
            node.start()

    def namespace(self, label: str) -> str:
        return self._namespaces.name(label)

    def at(self, label: str, *command: str) -> str:
        """Run a command in a namespace."""
        return self._namespaces.at(label, *command)

    def answered(self, count: int) -> int:
        """Send `count` echoes from client to server; how many were answered, however late."""
        return ping_all(self.namespace("client"), "10.0.0.2", count)

    def ping(self, *options: str) -> str:
        """Ping the server from the client, waiting one second for the last answer."""
        command = ["ping", "-q", "-W", "1", *options, "10.0.0.2"]
        return self._namespaces.at("client", *command, check=False)

    def forwarder(self) -> dict[str, Any]:
        """Configuration of the forwarder."""
        rules = [
            {"port": "client", "spi": FORWARD, "source": "10.0.0.0/24"},
            {"port": "server", "spi": REVERSE, "source": "10.0.0.0/24"},
        ]
        functions = range(1, self.length + 1)
        forward = [self._hop(FORWARD, at, number) for at, number in enumerate(functions)]
        reverse = [self._hop(REVERSE, at, number) for at, number in enumerate(reversed(functions))]
        last = 255 - self.length
        ends = [
            {"spi": FORWARD, "si": last, "end": {"port": "server"}},
            {"spi": REVERSE, "si": last, "end": {"port": "client"}},
        ]
        between = [self._trusted(f"f{n}", 100 + n) for n in functions]
        return {
            "version": 1,
            "control": str(self.folder / "sff.sock"),
            "ports": [
                {"name": "client", "interface": "client", "otherwise": {"port": "server"}},
                {"name": "server", "interface": "server", "otherwise": {"port": "client"}},
                *between,
            ],
            "rules": rules,
            "hops": [*forward, *reverse, *ends],
        }

    def function(self, number: int) -> dict[str, Any]:
        """Configuration of a function."""
        config = {
            "version": 1,
            "control": str(self.folder / f"f{number}.sock"),
            "ports": [self._trusted("f0", number)],
        }
        return config | ({"forwarders": [f"192.0.2.{100 + number}"]} if self._tunnels else {})

    def firewall(self, number: int, **firewall: Any) -> Node:  # noqa: ANN401 (JSON)
        """Make a function a firewall. It is not started yet."""
        rules = {"rules_file": str(self.folder / f"f{number}.rules.json"), **firewall}
        config = {**self.function(number), "firewall": rules}
        self.functions[number - 1] = self._node(f"f{number}", "firewall", config)
        return self.functions[number - 1]

    def sensor(self, number: int, ids: dict[str, Any]) -> Node:
        """Make a function an intrusion detection sensor. It is not started yet."""
        config = {**self.function(number), "ids": ids}
        self.functions[number - 1] = self._node(f"f{number}", "ids", config)
        return self.functions[number - 1]

    @property
    def _tunnels(self) -> bool:
        return self.transport == "vxlan_gpe"

    def _trusted(self, name: str, address: int) -> dict[str, Any]:
        """A port between forwarder and function."""
        port = {"name": name, "interface": name, "trusted": True}
        return port | ({"address": f"192.0.2.{address}"} if self._tunnels else {})

    def _hop(self, spi: int, at: int, number: int) -> dict[str, Any]:
        target: dict[str, Any] = {"port": f"f{number}", "mac": mac(number)}
        if self._tunnels:
            target["vxlan_gpe"] = {"remote": f"192.0.2.{number}", "vni": 7}
        return {"spi": spi, "si": 255 - at, "to": [target]}

    def _node(self, label: str, kind: str, config: dict[str, Any]) -> Node:
        return Node(self.namespace(label), kind, config, self.folder)

    def _build(self) -> None:
        labels = ["client", "sff", "server", *(f"f{n}" for n in range(1, self.length + 1))]
        for label in labels:
            self._namespaces.add(label)
            self.at(label, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self._cable(("client", "c0"), "client", mac(201))
        self._cable(("server", "s0"), "server", mac(202))
        for number in range(1, self.length + 1):
            self._cable((f"f{number}", "f0"), f"f{number}", mac(number))
        for label, port, address in (("client", "c0", 1), ("server", "s0", 2)):
            self.at(label, "ip", "address", "add", f"10.0.0.{address}/24", "dev", port)
            # XDP needs complete checksums; a veth end accepts redirected frames only with GRO on.
            self.at(label, "ethtool", "-K", port, "tx", "off", "gro", "on")

    def _cable(self, end: tuple[str, str], port: str, address: str) -> None:
        label, interface = end
        here, sff = self.namespace(label), self.namespace("sff")
        peer = ["peer", "name", port, "mtu", "1700", "netns", sff]
        mtu = "1500" if label in {"client", "server"} else "1700"
        veth = ["name", interface, "address", address, "mtu", mtu, "type", "veth"]
        run("ip", "-n", here, "link", "add", *veth, *peer)
        run("ip", "-n", here, "link", "set", interface, "up")
        run("ip", "-n", sff, "link", "set", port, "up")


def mac(number: int) -> str:
    """Ethernet address of a function."""
    return f"02:00:00:00:00:{number:02x}"


def hop_packets(counters: dict[str, Any], spi: int) -> Sequence[int]:
    """Packets at each place of a path, first to last."""
    hops = [hop for hop in counters["hops"] if hop["spi"] == spi]
    return [hop["packets"] for hop in sorted(hops, key=lambda hop: -hop["si"])]
