"""The class of an application follows the addresses of its DNS name, and connections stay.

See tests/lab/controller/network.py for the topology: `wa` is fibre, `wb` is lte.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from lab.controller.network import Deployment
from lab.dns_server import DnsServer
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

NAME = "files.acme.example"
PATCH = {
    "applications": {"files": {"names": [NAME], "protocol": "tcp"}},
    "policy": {"I": {"applications": ["files"]}},
}


def test_a_class_follows_a_name_and_no_connection_is_lost(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        settings = network.controller.directory / "controller.json"
        found = json.loads(settings.read_text()) | {"dns_servers": ["127.0.0.1"]}
        settings.write_text(json.dumps(found))
        network.start()
        transfer = Transfer(network.lab, port=7001, pause=0.02)
        with DnsServer(network.controller.within(_port_53), {NAME: ["10.2.0.1"]}) as server:
            server.ttl = 1
            network.controller.patch(PATCH)
            until(lambda: matched(network) == ["10.2.0.1/32"], "gateways match the address")
            server.zone[NAME] = ["10.2.0.9"]
            until(lambda: matched(network) == ["10.2.0.1/32", "10.2.0.9/32"], "and the next one")
        until(network.controller.settled)
        transfer.end()


def _port_53() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 53))
    return made


def matched(network: Deployment) -> list[str]:
    """Destinations of class I at b1's gateway."""
    found: dict[str, Any] = network.branches[1].configuration()
    rules = (found.get("classifier") or {"rules": []})["rules"]
    return [each["destination"] for each in rules if each["destination"]]
