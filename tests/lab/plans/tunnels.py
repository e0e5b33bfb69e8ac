"""A plan with one tunnel of other people's software.

 h1            gw1                                     gw2            h2
+-----+       +-----------+                           +-----------+       +-----+
| eth |--in1--| lan   wan |==== 200 Mbit/s, 20 ms ====| wan   lan |--in2--| eth | 10.255.0.10
+-----+       +-----------+        tunnel vpn         +-----------+       +-----+
"""

from __future__ import annotations

import pytest

import documents
from documents import Document, with_
from hawser.driver.parts import tunnels
from hawser.overlay.lab.plan import NetworkPlan

WORKFLOW: Document = {
    "hawser": 1,
    "name": "tunnel",
    "title": "A tunnel",
    "topology": {
        "nodes": ["h1", "gw1", "gw2", "h2"],
        "links": {
            "in1": {"ends": ["h1.eth", "gw1.lan"]},
            "wan": {"ends": ["gw1.wan", "gw2.wan"], "rate": "200 Mbit/s", "delay": "20 ms"},
            "in2": {"ends": ["gw2.lan", "h2.eth"]},
        },
    },
    "tunnels": {"vpn": {"ends": ["gw1.wan", "gw2.wan"]}},
    "measurements": {"tcp": {"probe": "iperf3", "from": "h1", "to": "h2"}},
}

TARGET = "10.255.0.10"
OUTER_PORT = {"strongswan": "4500", "wireguard-go": "51820"}


def planned(kind: str) -> NetworkPlan:
    """The plan with this kind of tunnel; skips where its program is missing."""
    plan = documents.planned(with_(WORKFLOW, "tunnels.vpn.kind", kind))
    lacks = tuple(tunnels.missing(plan))
    if lacks:
        pytest.skip(lacks[0])
    return plan
