"""A workflow of one cable, at two rates.

h1: p ----x, 20 Mbit/s (variant slow: 5 Mbit/s)---- p :h2
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from documents import Document
from lab.run import cli

CABLE: Document = {
    "hawser": 1,
    "title": "A cable at two rates",
    "topology": {
        "nodes": ["h1", "h2"],
        "links": {"x": {"ends": ["h1.p", "h2.p"], "rate": "20 Mbit/s"}},
    },
    "measurements": {
        "rtt": {"probe": "ping", "from": "h1", "to": "h2", "count": 5, "interval": "10 ms"},
        "tcp": {"probe": "iperf3", "from": "h1", "to": "h2", "duration": "1 s", "warmup": "0 s"},
    },
    "variants": {
        "product": {"rate": {"slow": {"topology.links.x.rate": "5 Mbit/s"}, "fast": {}}},
    },
    "settle": "0 s",
    "repeat": 2,
}


def write(folder: Path, least: tuple[float, float] = (0.01, 0.01)) -> Path:
    """Write the workflow, under a name of this process.

    Its assertions hold from this goodput on (`fast`, `slow`; Mbit/s).
    """
    path = folder / "cable.yaml"
    holds = [
        {"variant": {"rate": rate}, "metric": "goodput", "at_least": lowest, "at_most": highest}
        for rate, lowest, highest in (("fast", least[0], 20), ("slow", least[1], 5))
    ]
    path.write_text(json.dumps(CABLE | {"name": f"t{os.getpid()}", "assert": holds}))
    return path


def only_bundle(folder: Path) -> Path:
    (bundle,) = cli.bundles(folder)
    return bundle
