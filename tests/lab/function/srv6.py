"""The kernel's segment routing at both ends, `hawserd function srv6-proxy` between, and a function.

    ha --- a ---- r ---- b --- hb      a, b: H.Encaps and End.DX4, End.DX6 by the kernel
                  |                    r:    a router
                  px                   px:   the proxy
                p0  p1
                |    |
                f0  f1
                  fn                   fn:   a router without segment routing

Packets from ha enter fn at f0 and leave at f1, packets from hb the other way. The kernel's End.DX6
never delivers locally, so the hosts are nodes behind the ends. It does not report packets that are
too long for its encapsulation, so the links between have a larger MTU (1600) than those of the
hosts (1500).
"""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.function.chain import Node
from lab.namespace import Namespaces, run
from lab.traffic.chains import ping_all
from lab.waiting import PATIENCE

FORWARD, REVERSE = "5f00:f::1", "5f00:f::2"
"""Segments of the proxy."""
CROSS_CONNECT_IPV4, CROSS_CONNECT_IPV6 = "End.DX4 nh4 0.0.0.0", "End.DX6 nh6 ::"
ADDRESSES = {"a": ("10.1.0.1", "fd01::2"), "b": ("10.2.0.1", "fd02::2")}
"""Of the hosts behind the ends."""
_ENDS = {4: CROSS_CONNECT_IPV4, 6: CROSS_CONNECT_IPV6}
_MAC = {"r": "02:00:00:00:00:01", "f0": "02:00:00:00:00:02", "f1": "02:00:00:00:00:03"}
_NAMES = ("ha", "a", "r", "b", "hb", "px", "fn")


class Srv6:
    """The lab. Packets are encapsulated in the given mode."""

    def __init__(self, behaviour: str, mode: str = "encap") -> None:
        self._namespaces = Namespaces("hawsers6")
        self._behaviour = behaviour
        self._mode = mode
        self._folder = tempfile.TemporaryDirectory(prefix="hawsers6-")
        self.folder = Path(self._folder.name)
        self.proxy = Node(self.namespace("px"), "srv6-proxy", self._config(), self.folder)

    def __enter__(self) -> Srv6:
        try:
            self._build()
            self.proxy.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.stop(signal.SIGKILL)
        self._namespaces.__exit__()
        self._folder.cleanup()

    def namespace(self, label: str) -> str:
        return self._namespaces.name(label)

    def inside(self, label: str, *command: str) -> list[str]:
        return self._namespaces.inside(label, *command)

    def at(self, label: str, *command: str) -> str:
        """Run a command in a namespace."""
        return self._namespaces.at(label, *command)

    def ip(self, label: str, words: str) -> None:
        self.at(label, "ip", *words.split())

    def answered(self, family: int, count: int, patience: float = PATIENCE) -> int:
        """Send `count` echoes from ha to hb; how many were answered, each within `patience` s."""
        target = ADDRESSES["b"][family == 6]
        return ping_all(self.namespace("ha"), target, count, patience=patience)

    def ping(self, family: int, *options: str) -> str:
        """Ping hb from ha, waiting one second for the last answer."""
        target = ADDRESSES["b"][family == 6]
        return self._namespaces.at("ha", "ping", "-q", "-W", "1", *options, target, check=False)

    def _config(self) -> dict[str, Any]:
        proxies = []
        for segment, out, back, ends in (
            (FORWARD, "f0", "f1", "ab"),
            (REVERSE, "f1", "f0", "ba"),
        ):
            proxy: dict[str, Any] = {
                "segment": segment,
                "behaviour": self._behaviour,
                "function": {"port": f"p{out[1]}", "mac": _MAC[out]},
                "returns": f"p{back[1]}",
                "onward": {"port": "net", "mac": _MAC["r"]},
            }
            if self._behaviour == "static":
                # One list serves both families, with an end that decapsulates both: see `_end`.
                segments = [f"5f00:{ends[1]}::46"]
                proxy["encapsulation"] = {"source": "fd00:f::2", "segments": segments}
            proxies.append(proxy)
        ports = [("net", "f0"), ("p0", "p0"), ("p1", "p1")]
        return {
            "version": 1,
            "control": str(self.folder / "proxy.sock"),
            "ports": [
                {"name": name, "interface": interface, "trusted": name == "net"}
                for name, interface in ports
            ],
            "proxies": proxies,
        }

    def _build(self) -> None:
        for label in _NAMES:
            self._namespaces.add(label)
            for key in ("ipv4.ip_forward", "ipv6.conf.all.forwarding", "ipv6.conf.all.seg6_enabled",
                        "ipv6.conf.default.seg6_enabled"):  # fmt: skip
                value = "0" if label == "px" or (label == "fn" and "seg6" in key) else "1"
                self.at(label, "sysctl", "-qw", f"net.{key}={value}")
            for name in ("all", "default"):
                self.at(label, "sysctl", "-qw", f"net.ipv6.conf.{name}.accept_dad=0",
                        f"net.ipv4.conf.{name}.rp_filter=0",
                        f"net.ipv4.conf.{name}.send_redirects=0")  # fmt: skip
            self.ip(label, "link set lo up")
        self._cable(("a", "c0"), ("r", "a"), "fd00:a", 1600)
        self._cable(("b", "c0"), ("r", "b"), "fd00:b", 1600)
        self._cable(("px", "f0"), ("r", "f"), "fd00:f", 1600)
        self._cable(("ha", "c0"), ("a", "h0"), "fd01", 1500)
        self._cable(("hb", "c0"), ("b", "h0"), "fd02", 1500)
        self._cable(("fn", "f0"), ("px", "p0"), "fd09:0", 1600)
        self._cable(("fn", "f1"), ("px", "p1"), "fd09:1", 1600)
        # XDP needs complete checksums; a veth end accepts redirected frames only with GRO on.
        for label, device in (("r", "f"), ("fn", "f0"), ("fn", "f1")):
            self.at(label, "ethtool", "-K", device, "tx", "off", "gro", "on")
        self._routes()

    def _cable(self, end: tuple[str, str], other: tuple[str, str], net: str, mtu: int) -> None:
        (here, device), (there, far) = end, other
        peer = ["peer", "name", far, "mtu", str(mtu), "netns", self.namespace(there)]
        veth = ["name", device, "mtu", str(mtu), "type", "veth"]
        run("ip", "-n", self.namespace(here), "link", "add", *veth, *peer)
        mac = {("r", "f"): "r", ("fn", "f0"): "f0", ("fn", "f1"): "f1"}
        for (label, port), number in ((other, 1), (end, 2)):
            if (label, port) in mac:
                self.ip(label, f"link set dev {port} address {_MAC[mac[label, port]]}")
            self.ip(label, f"link set dev {port} up")
            self.ip(label, f"-6 address add {net}::{number}/64 dev {port}")
        if net.startswith("fd09"):
            third = net[-1]
            self.ip("px", f"address add 10.9.{third}.1/24 dev {far}")
            self.ip("fn", f"address add 10.9.{third}.2/24 dev {device}")

    def _routes(self) -> None:
        for end, far, segment in (("a", "b", FORWARD), ("b", "a", REVERSE)):
            self.ip(end, f"-6 route add default via fd00:{end}::1")
            self.ip("r", f"-6 route add 5f00:{end}::/64 via fd00:{end}::2")
            host = ADDRESSES[end][0]
            self.ip(f"h{end}", f"address add {host}/24 dev c0")
            self.ip(end, f"address add {host}54/24 dev h0")
            self.ip(f"h{end}", f"route add default via {host}54")
            self.ip(
                f"h{end}", "-6 route add default via {}::1".format("fd01" if end == "a" else "fd02")
            )
            for family in (4, 6):
                self.steer(end, family, [segment, f"5f00:{far}::{family}"], self._mode)
                self.segment(end, f"5f00:{end}::{family}", _ENDS[family])
        self.route_to_proxy()
        for number, other in ((0, 1), (1, 0)):
            for family, via in ((4, f"10.9.{other}.1"), (6, f"fd09:{other}::1")):
                table = 100 + number
                self.ip("fn", f"-{family} rule add iif f{number} lookup {table}")
                route = f"default via {via} dev f{other} table {table}"
                self.ip("fn", f"-{family} route add {route}")

    def steer(self, end: str, family: int, segments: Sequence[str], mode: str) -> None:
        """Steer packets to the other end's host by a segment list."""
        to = ADDRESSES["b" if end == "a" else "a"][family == 6]
        encap = f"encap seg6 mode {mode} segs {','.join(segments)}"
        self.ip(end, f"-{family} route replace {to} {encap} dev c0")

    def route_to_proxy(self, *, known: bool = True) -> None:
        """Add or remove the router's route to the proxy's segments."""
        self.ip("r", "-6 route flush 5f00:f::/64")
        if known:
            self.ip("r", "-6 route add 5f00:f::/64 via fd00:f::2")

    def segment(self, label: str, address: str, action: str, device: str = "c0") -> None:
        """Give a node a segment that the kernel processes and counts."""
        encap = f"encap seg6local action {action} count"
        self.ip(label, f"-6 route replace {address} {encap} dev {device}")

    def came_to(self, label: str, address: str) -> int:
        """Packets that arrived at a segment that the kernel processes, without errors."""
        (route,) = json.loads(self.at(label, "ip", "-j", "-s", "-6", "route", "show", address))
        return int(route["stats64"]["packets"])

    def set_end(self, family: int) -> None:
        """Make the ends behind static proxies decapsulate this family."""
        for end in "ab":
            self.segment(end, f"5f00:{end}::46", _ENDS[family])
