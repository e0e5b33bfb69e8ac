"""An end of an ESP tunnel carried by `hawserd`, with strongSwan's own user-space ESP at the other.

 a: 10.99.0.1 on lo                          b: 10.99.0.2 on lo
+------------------------------+            +------------------------------+
| charon --keys--> hawserd     |            | charon with kernel-libipsec  |
|                   | esp0     |            |                              |
| f0                           |----wan-----| near                         |
+------------------------------+            +------------------------------+
        <=============== ESP in UDP, port 4500 (RFC 3948) ===============>
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from hawser.control.client import DaemonClient
from hawser.control.model import FunctionCounters
from hawser.driver.local import LocalLab
from hawser.driver.parts import tunnels
from hawser.driver.parts.tunnels import strongswan
from hawser.driver.parts.tunnels.function import TunnelEnd
from hawser.driver.parts.tunnels.wait import listening
from hawser.node.netns import NamespaceNode
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan, TunnelPlan
from hawser.spec import load
from hawser.spec.tunnel import TunnelKind
from lab.waiting import until

WORKFLOW = b"""\
hawser: 1
name: ends
title: Two ends
topology:
  nodes: [a, b]
  links:
    wan: {ends: [a.f0, b.near]}
measurements:
  rtt: {probe: ping, from: a, to: b}
"""
A, B = "10.99.0.1", "10.99.0.2"


@dataclass(frozen=True)
class Ends:
    """Both ends of a tunnel, connected."""

    lab: LocalLab
    end: TunnelEnd
    folder: Path
    """Of charon's files at the other end."""

    @property
    def a(self) -> NamespaceNode:
        return self.lab.nodes["a"]

    @property
    def b(self) -> NamespaceNode:
        return self.lab.nodes["b"]

    def counters(self) -> FunctionCounters:
        with DaemonClient(self.end.control) as control:
            return control.function_counters()

    def dropped(self) -> dict[str, int]:
        return {cause: count for cause, count in self.counters().drops.items() if count}

    def rekey(self, node: str) -> None:
        """Make a node renew the keys."""
        folder = {"a": self.end.folder, "b": self.folder}[node]
        command = strongswan.rekey(folder, "t")
        self.lab.nodes[node].run(command, timeout=60, env=strongswan.environment(folder))

    def associations(self) -> dict[str, str]:
        """Keys by SPI, from the log of charon at b; both directions, old and new."""
        return keys((self.folder / "charon.log").read_text())


@contextmanager
def tunnel(
    deploy: Callable[[NetworkPlan], LocalLab],
    rekey_after: int | None = None,
    ephemeral_ports: int | None = None,
) -> Iterator[Ends]:
    """Give a tunnel; skip if a program is missing.

    Args:
        deploy: makes the lab.
        rekey_after: packets after which a renews keys.
        ephemeral_ports: how many a has; the kernel's default if left out.
    """
    plan = network(load("x.yaml", lambda _: WORKFLOW).variants[0].scenario)
    lab = deploy(plan)
    a, b = (lab.nodes[name] for name in "ab")
    here, there = (plan.addresses[name] for name in "ab")
    common = {"name": "t", "kind": TunnelKind.STRONGSWAN}
    mine, others = ((IPv4Network(address),) for address in (A, B))
    first = TunnelPlan(
        **common, node="a", peer="b", local=here, remote=there, inside=mine, outside=others, table=9
    )
    second = TunnelPlan(
        **common, node="b", peer="a", local=there, remote=here, inside=others, outside=mine
    )
    lacks = tuple(tunnels.missing(plan.model_copy(update={"tunnels": (first, second)})))
    if lacks:
        pytest.skip(lacks[0])
    a.run(["ip", "address", "add", A, "dev", "lo"], timeout=60)
    if ephemeral_ports is not None:
        ports = f"net.ipv4.ip_local_port_range=40000 {40000 + ephemeral_ports - 1}"
        a.run(["sysctl", "-w", ports], timeout=60)
    b.run(["ip", "address", "add", B, "dev", "lo"], timeout=60)
    secret = secrets.token_hex(16)
    folder, other = lab.directory / "own", lab.directory / "other"
    for each in (folder, other):
        each.mkdir()
    strongswan.write(other, second, b, secret)
    tell_keys(other / "strongswan.conf")
    environment = strongswan.environment(other)
    charon = b.start(strongswan.COMMAND, log=other / "charon.log", env=environment)
    end = TunnelEnd(lab.directory, folder, first, a, secret, rekey_after)
    try:
        until(listening(strongswan.socket(other)))
        strongswan.load(other, b)
        end.load()
        end.connect()
        end.wait()
        a.run(["ip", "route", "add", B, "dev", "esp0", "src", A], timeout=60)
        yield Ends(lab, end, other)
    finally:
        end.stop()
        charon.stop()


def tell_keys(config: Path) -> None:
    text = config.read_text()
    config.write_text(text.replace("default = 1\n", "default = 1\n chd = 4\n", 1))


def keys(log: str) -> dict[str, str]:
    """Read keys from charon's log, in the order of its steps; independent of hawserd's parser."""
    found, begun = {}, True
    steps = re.compile(
        r"parsed \w+ (?P<role>request|response)"
        r"|encryption (?P<whose>\w+) key => [^\n]*\n"
        r"(?P<rows>(?:\d+\[CHD\] +\d+: [^\n]*\n)+)"
        r"|(?:adding|registering) (?P<way>in|out)bound ESP SA\n\d+\[CHD\]   SPI (?P<spi>0x\w+)"
    )
    material: dict[str, str] = {}
    for step in steps.finditer(log):
        if step["role"]:
            begun = step["role"] == "response"
        elif step["whose"]:
            rows = (line.partition(": ")[2][:48] for line in step["rows"].splitlines())
            material[step["whose"]] = "".join("".join(rows).split())
        elif step["spi"] not in found:
            whose = "initiator" if begun == (step["way"] == "out") else "responder"
            found[step["spi"]] = material[whose]
    return found
