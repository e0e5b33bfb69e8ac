"""Tunnels of other people's software carry what they should, encrypted.

h1 --in1-- gw1 ==wan== gw2 --in2-- h2
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from driver_traffic import ping, tcp

from hawser.driver import tunnels
from hawser.driver.local import LocalLab
from hawser.node import namespace
from hawser.overlay import network
from hawser.overlay.plan import NetworkPlan
from hawser.spec import load

pytestmark = pytest.mark.root

WORKFLOW = """\
hawser: 1
name: tunnel
title: A tunnel
topology:
  nodes: [h1, gw1, gw2, h2]
  links:
    in1: {ends: [h1.eth, gw1.lan]}
    wan: {ends: [gw1.wan, gw2.wan], rate: 200 Mbit/s, delay: 20 ms}
    in2: {ends: [gw2.lan, h2.eth]}
tunnels:
  vpn: {kind: %s, ends: [gw1.wan, gw2.wan]}
measurements:
  tcp: {probe: iperf3, from: h1, to: h2}
"""

TARGET = "10.255.0.10"
OUTER_PORT = {"strongswan": "4500", "wireguard-go": "51820"}


def planned(kind: str) -> NetworkPlan:
    text = (WORKFLOW % kind).encode()
    plan = network(load("x.yaml", lambda _: text).variants[0].scenario)
    lacks = tuple(tunnels.missing(plan))
    if lacks:
        pytest.skip(lacks[0])
    return plan


@pytest.mark.parametrize("kind", OUTER_PORT)
def test_hosts_talk_through_the_tunnel(
    deploy: Callable[[NetworkPlan], LocalLab], kind: str
) -> None:
    lab = deploy(planned(kind))
    h1, gw1, h2 = (lab.nodes[name] for name in ("h1", "gw1", "h2"))
    capture = gw1.start(["tcpdump", "-nni", "wan", "-c", "40", "--immediate-mode", "ip"])
    assert ping(h1, TARGET) == 3
    assert tcp(h1, h2, TARGET, 1)["bits_per_second"] > 5e6
    seen = capture.stop()
    packets = [line for line in seen.stdout.splitlines() if " IP " in line]
    assert len(packets) >= 40
    assert all(f".{OUTER_PORT[kind]}" in line for line in packets), seen.stdout
    assert not re.search(re.escape(TARGET), seen.stdout)


@pytest.mark.parametrize("kind", OUTER_PORT)
def test_a_lab_leaves_no_tunnel_behind(
    deploy: Callable[[NetworkPlan], LocalLab], kind: str
) -> None:
    lab = deploy(planned(kind))
    processes = [process.pid for process in lab.tunnels]
    assert len(processes) == 2
    lab.destroy()
    assert not any(process.running() for process in lab.tunnels)
    assert not namespace.names(f"hawser.{lab.name}.")
    assert not lab.directory.exists()
