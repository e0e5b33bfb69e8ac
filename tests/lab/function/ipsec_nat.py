"""An ESP tunnel whose far end is behind a NAT that changes ports.

 a: 10.99.0.1 on lo               n: NAT                        b: 10.99.0.2 on lo
+----------------------+         +---------+                   +----------------------------+
| charon --> hawserd   |         |         |                   | charon, kernel-libipsec or |
| f0                   |-outside-| out  in |-------inside------| hawserd                 f0 |
+----------------------+         +---------+                   +----------------------------+
        <======== ESP in UDP, to port 4500 of a, from any port of n ========>
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from hawser.control.client import DaemonClient
from hawser.driver.local import LocalLab
from hawser.driver.parts import tunnels
from hawser.driver.parts.tunnels import strongswan
from hawser.driver.parts.tunnels.function import TunnelEnd
from hawser.driver.parts.tunnels.wait import listening
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan, TunnelPlan
from hawser.spec import load
from hawser.spec.tunnel import TunnelKind
from lab.function.ipsec import A, B, Ends, tell_keys
from lab.waiting import until

WORKFLOW = b"""\
hawser: 1
name: ends
title: Two ends and a NAT
topology:
  nodes: [a, n, b]
  links:
    outside: {ends: [a.f0, n.out]}
    inside: {ends: [n.in, b.f0]}
measurements:
  rtt: {probe: ping, from: a, to: b}
"""
_NAT = """\
table ip nat {
  chain out {
    type nat hook postrouting priority srcnat;
    oifname out ip saddr 10.255.0.4/30 ip protocol udp masquerade to :20000-60000 fully-random
  }
  chain forged {
    type filter hook output priority raw;
    udp dport 4500 notrack
  }
}
"""


class NatTunnel(Ends):
    """A tunnel through a NAT, connected from behind it: `end` is the public one."""

    @property
    def public(self) -> str:
        """Address of the NAT, from which b's packets come."""
        return str(self.lab.plan.addresses["n.out"])

    def details(self) -> dict[str, Any]:
        """What only an end of an IPsec tunnel counts."""
        with DaemonClient(self.end.control) as control:
            return control.counters()

    def port(self) -> int:
        """Port to which the public end sends."""
        address, _, port = self.details()["endpoint"].partition(":")
        assert address == self.public
        return int(port)

    def rebind(self) -> None:
        """Make the NAT forget its translations: the next packet gets another port.

        The kernel does that when a masquerading address is removed.
        """
        address = f"{self.public}/30"
        for verb in ("del", "add"):
            self.lab.nodes["n"].run(["ip", "addr", verb, address, "dev", "out"], timeout=60)


@contextmanager
def through_nat(
    deploy: Callable[[NetworkPlan], LocalLab], *, charon_only: bool
) -> Iterator[NatTunnel]:
    """Give a tunnel; skip if a program is missing.

    Args:
        deploy: makes the lab.
        charon_only: packets behind the NAT are carried by charon itself, not by `hawserd`.
    """
    plan = network(load("x.yaml", lambda _: WORKFLOW).variants[0].scenario)
    first, second = _ends(plan, charon_only=charon_only)
    lacks = tuple(tunnels.missing(plan.model_copy(update={"tunnels": (first, second)})))
    if lacks:
        pytest.skip(lacks[0])
    lab = deploy(plan)
    _prepare(lab)
    secret = secrets.token_hex(16)
    folders = [lab.directory / name for name in ("own", "other")]
    for each in folders:
        each.mkdir()
    with ExitStack() as stack:
        end = TunnelEnd(lab.directory, folders[0], first, lab.nodes["a"], secret)
        stack.callback(end.stop)
        end.load()
        (_charon if charon_only else _function)(lab, folders[1], second, secret, stack)
        end.wait()
        for node, to, own in (("a", B, A), ("b", A, B)):
            if node == "a" or not charon_only:
                route = ["ip", "route", "add", to, "dev", "esp0", "src", own]
                lab.nodes[node].run(route, timeout=60)
        yield NatTunnel(lab, end, folders[1])


def _ends(plan: NetworkPlan, *, charon_only: bool) -> tuple[TunnelPlan, TunnelPlan]:
    """Both ends; what a knows of b is the address of the NAT."""
    mine, others = ((IPv4Network(address),) for address in (A, B))
    common = {"name": "t", "kind": TunnelKind.STRONGSWAN}
    first = TunnelPlan(
        **common,
        node="a",
        peer="b",
        local=plan.addresses["a"],
        remote=plan.addresses["n.out"],
        inside=mine,
        outside=others,
        table=9,
    )
    second = TunnelPlan(
        **common,
        node="b",
        peer="a",
        local=plan.addresses["b"],
        remote=plan.addresses["a"],
        inside=others,
        outside=mine,
        table=None if charon_only else 9,
    )
    return first, second


def _prepare(lab: LocalLab) -> None:
    """Addresses of the hosts, and the NAT."""
    for node, address in (("a", A), ("b", B)):
        lab.nodes[node].run(["ip", "address", "add", address, "dev", "lo"], timeout=60)
    rules = lab.directory / "nat.nft"
    rules.write_text(_NAT)
    lab.nodes["n"].run(["nft", "-f", str(rules)], timeout=60)
    # a reaches nothing behind the NAT but by its address.
    lab.nodes["a"].run(["ip", "route", "flush", "root", "10.255.0.4/30"], timeout=60)


def _charon(lab: LocalLab, folder: Path, plan: TunnelPlan, secret: str, stack: ExitStack) -> None:
    """Start charon with its own ESP, which connects."""
    node = lab.nodes["b"]
    strongswan.write(folder, plan, node, secret)
    tell_keys(folder / "strongswan.conf")
    connection = folder / "swanctl.conf"
    ports = "local_port = 4500\n    remote_port = 4500\n    remote_addrs"
    connection.write_text(connection.read_text().replace("remote_addrs", ports, 1))
    environment = strongswan.environment(folder)
    process = node.start(strongswan.COMMAND, log=folder / "charon.log", env=environment)
    stack.callback(process.stop)
    until(listening(strongswan.socket(folder)), "charon listens")
    strongswan.load(folder, node)
    strongswan.initiate(folder, node, plan.name, folder / "charon.log")


def _function(lab: LocalLab, folder: Path, plan: TunnelPlan, secret: str, stack: ExitStack) -> None:
    """Start an IPsec function, which connects."""
    end = TunnelEnd(lab.directory, folder, plan, lab.nodes["b"], secret)
    stack.callback(end.stop)
    end.load()
    end.connect()
    end.wait()
