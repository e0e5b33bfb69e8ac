"""A workflow of a bare cable: h1 --20 Mbit/s-- h2."""

from __future__ import annotations

import os
from pathlib import Path

from lab.run import cli

WORKFLOW = """
hawser: 1
name: {name}
title: A cable at two rates
topology:
  nodes: [h1, h2]
  links: {{x: {{ends: [h1.p, h2.p], rate: 20 Mbit/s}}}}
measurements:
  rtt: {{probe: ping, from: h1, to: h2, count: 5, interval: 10 ms}}
  tcp: {{probe: iperf3, from: h1, to: h2, duration: 1 s, warmup: 0 s}}
variants:
  product:
    rate: {{slow: {{topology.links.x.rate: 5 Mbit/s}}, fast: {{}}}}
settle: 0 s
repeat: 2
assert:
  - {{variant: {{rate: fast}}, metric: goodput, at_least: {least[0]}, at_most: 20}}
  - {{variant: {{rate: slow}}, metric: goodput, at_least: {least[1]}, at_most: 5}}
"""


def write(folder: Path, least: tuple[float, float] = (0.01, 0.01)) -> Path:
    """Write the workflow, under a name of this process.

    Its assertions hold from this goodput on (`fast`, `slow`; Mbit/s).
    """
    path = folder / "cable.yaml"
    path.write_text(WORKFLOW.format(name=f"t{os.getpid()}", least=least))
    return path


def only_bundle(folder: Path) -> Path:
    (bundle,) = cli.bundles(folder)
    return bundle
