"""A bottleneck inside the internet: only packets between gw1.a and gw2.a pass it.

   gw1                         internet                      backbone
  +---------------+           +---------------------+       +--------+
  | a 198.18.0.2  |-----------| wan0             x0 |---x1--| x0     |  x1: 20 Mbit/s, towards gw2
  | b 198.18.0.10 |-----------| wan1                |       |        |      12 Mbit/s, towards gw1
  +---------------+           |                     |       |        |
   gw2                        |                     |       |        |
  +---------------+           |                     |       |        |
  | a 198.18.0.18 |-----------| wan2           back |-------| up     |   unlimited
  | b 198.18.0.26 |-----------| wan3                |       +--------+
  +---------------+           +---------------------+

gw1.a to gw2.a crosses x1 towards the backbone and returns over `up`; gw2.a to gw1.a goes the other
way round. Every other pair of ports stays in the internet, at 60 Mbit/s a path.
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
