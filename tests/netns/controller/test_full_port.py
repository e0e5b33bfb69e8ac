"""A gateway whose only port is full of traffic that goes first still hears its controller.

See tests/lab/controller/network.py for the topology. The port of b1 is shaped as in labs:
classes by `skb->priority`, of which the first is served first (docs/guide/switching.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hawser.overlay.config.shaping import class_id
from lab.controller.network import CONTROLLER, Deployment
from lab.gateway.switch import address
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

FLOOD = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
    flood.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, int(sys.argv[1]))
    flood.connect((sys.argv[2], 9))
    print("begins", flush=True)
    while True:
        try:
            flood.send(bytes(1200))
        except OSError:
            pass
"""
"""Sends all that the port takes; a full queue makes it wait."""


def shaped(network: Deployment) -> None:
    """Give port wa of b1 a rate and three classes, each with its queue."""

    def tc(kind: str, *words: str) -> None:
        network.lab.at(1, "tc", kind, "add", "dev", "wa", *words)

    tc("qdisc", "root", "handle", "1:", "htb", "default", "12")
    tc("class", "parent", "1:", "classid", "1:1", "htb", "rate", "4mbit")
    for place, minor in enumerate(("10", "11", "12")):
        limits = ("htb", "rate", "1kbit", "ceil", "4mbit", "prio", str(place))
        tc("class", "parent", "1:1", "classid", f"1:{minor}", *limits)
        tc("qdisc", "parent", f"1:{minor}", "bfifo", "limit", "60000")


def test_a_full_port_does_not_hold_up_the_controller(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1,)) as network:
        network.lab.at(1, "ip", "link", "set", "wb", "down")
        shaped(network)
        network.controller.begin()
        network.join_all()
        until(network.controller.settled, "the gateway has its configuration")
        to = address(f"{CONTROLLER}a")
        network.lab.start(1, sys.executable, "-c", FLOOD, str(class_id(1)), to)
        ping = ("ping", "-c", "3", "-i", "0.2", "-W", "1", to)
        until(lambda: " 0 received" in network.lab.at(1, *ping, check=False), "the port is full")
        for queue in ("1 MB", "2 MB"):
            network.controller.patch({"overlay": {"queue": queue}})
            until(network.controller.settled, "a change is kept")
        assert "keepalive" not in network.branches[1].log()
