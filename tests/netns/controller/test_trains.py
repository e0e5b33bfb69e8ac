"""Idle tunnels that a controller has its gateways measure.

See tests/lab/controller/network.py for the topology. The way to b2's port wb has 8 Mbit/s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.controller.network import Deployment
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

MBIT = 1e6
WAIT_S = 240.0
"""Each tunnel has its turn after 20 s, and two minutes after an attempt that was disturbed."""


def tunnels(network: Deployment) -> dict[tuple[str, str], dict[str, Any]]:
    found = network.controller.ask("GET", "/v1/paths")["tunnels"]
    return {(each["ports"][0], each["ports"][1]): each for each in found}


def test_tunnels_that_nothing_uses_are_measured(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        shaper = ("htb", "rate", "8mbit", "burst", "1600", "cburst", "1600")
        qdisc = ("tc", "qdisc", "add", "dev", "i2b")
        network.lab.at(0, *qdisc, "root", "handle", "1:", "htb", "default", "1")
        classes = ("tc", "class", "add", "dev", "i2b", "parent", "1:", "classid", "1:1")
        network.lab.at(0, *classes, *shaper)
        network.lab.at(0, *qdisc, "parent", "1:1", "bfifo", "limit", "75000")
        network.controller.begin()
        ports = {f"gw{n}.{port}": {"rate": "20 Mbit/s"} for n in (1, 2) for port in ("wa", "wb")}
        network.controller.patch({"overlay": {"paths": "automatic"}, "ports": ports})
        network.join_all()
        until(network.connected, "every branch reaches every other")
        into = ("b1.wa", "b2.wb")
        until(lambda: into in tunnels(network), "it is measured", WAIT_S)
        found = tunnels(network)[into]
        assert found["low"] <= found["available"] <= found["high"]
        assert found["available"] == pytest.approx(8 * MBIT, rel=0.2)
        network.ping(1, 2)
