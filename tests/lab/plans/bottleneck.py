"""A bottleneck inside the internet.

gw1 ==a,b== internet ==a,b== gw2        a to a passes a bottleneck of 20 Mbit/s, b to b does not
"""

from __future__ import annotations

from hawser.overlay.lab import NetworkPlan, network
from hawser.spec import load

FILE = """
hawser: 1
name: bottleneck
title: Bottleneck
topology:
  nodes: [gw1, gw2]
  internet:
    ports: {gw1.a: {}, gw1.b: {}, gw2.a: {}, gw2.b: {}}
    path: {rate: 60 Mbit/s}
    bottlenecks:
      x1: {between: [[gw1.a, gw2.a]], rate: 20 Mbit/s, reverse: {rate: 12 Mbit/s}}
measurements: {t: {probe: ping, from: gw1.a, to: gw2.a}}
"""


def plan(*overrides: str) -> NetworkPlan:
    workflow = load("x.yaml", lambda _: FILE, overrides)
    return network(workflow.variants[0].scenario)
