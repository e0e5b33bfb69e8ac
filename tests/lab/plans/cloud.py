"""Plans of two regions joined by one element of a cloud.

 client -- west == transit gateways, a peering, a VPN or internet gateways == east -- server

Oregon and Ohio are 54.2 ms apart over the cloud's network. Caps are at 2 %: a tunnel has 25 Mbit/s.
"""

from __future__ import annotations

import documents
from documents import Document, with_
from hawser.overlay.lab.plan import NetworkPlan

RTT_MS = 54.2
TUNNEL_MBIT_S = 25

WORKFLOW: Document = {
    "hawser": 1,
    "name": "cloud",
    "title": "Two regions",
    "topology": {"nodes": ["client", "server"]},
    "cloud": {
        "scale": "2 %",
        "elements": {
            "west": {"kind": "vpc", "region": "us-west-2", "nodes": ["client"]},
            "east": {"kind": "vpc", "region": "us-east-2", "nodes": ["server"]},
        },
    },
    "measurements": {"rtt": {"probe": "ping", "from": "client", "to": "server"}},
}

GATEWAYS: Document = {
    "tgw-west": {"kind": "transit_gateway", "region": "us-west-2", "attachments": ["west"]},
    "tgw-east": {"kind": "transit_gateway", "region": "us-east-2", "attachments": ["east"]},
}
PEERING: Document = {"peer": {"kind": "peering", "between": ["west", "east"]}}
BACKBONE: Document = {**GATEWAYS, "tgw-peer": {"kind": "peering", "between": [*GATEWAYS]}}
INTERNET: Document = {
    "igw-west": {"kind": "internet_gateway", "vpc": "west"},
    "igw-east": {"kind": "internet_gateway", "vpc": "east"},
}


def vpn(tunnel: str, tunnels: int) -> Document:
    """Tunnels between the transit gateways."""
    ends = [*GATEWAYS]
    return {
        **GATEWAYS,
        "vpn": {"kind": "vpn", "between": ends, "tunnel": tunnel, "tunnels": tunnels},
    }


def document(elements: Document) -> Document:
    """The workflow with these elements between the VPCs."""
    vpcs = WORKFLOW["cloud"]["elements"]
    return with_(WORKFLOW, "cloud.elements", vpcs | elements)


def planned(elements: Document) -> NetworkPlan:
    """Its plan."""
    return documents.planned(document(elements))
