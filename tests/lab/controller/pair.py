"""A branch with two gateways, and a host at both.

 host 4                        gateway 1 (b1)                  gateway 2 (b2)
+-----------------+      +-------------------------+     +---------------------+
| br0 10.1.0.5/24 |--+---| lan0 10.1.0.1   wa, wb  |--+--| wa, wb  lo 10.2.0.1 |
+-----------------+  |   +-------------------------+  |  +---------------------+
                     |    gateway 3 (b1/2)            |
                     |   +-------------------------+  |
                     +---| lan0 10.1.0.2   wa, wb  |--+
                         +-------------------------+

The WAN and the controller are those of network.py.
"""

from __future__ import annotations

import contextlib
import os
import signal

from lab.controller.network import Deployment
from lab.namespace import run
from lab.waiting import until

FIRST, OTHER, SECOND, HOST = 1, 2, 3, 4
PAIR = {
    "overlay": {"branches": {"b1": {"lan": "lan0"}, "b3": None}},
    "pairs": {"b1": {"gateway": "gw3", "wan": ["wa", "wb"], "lan": "lan0", "address": "10.1.0.2"}},
}


def joined(network: Deployment) -> None:
    """Join both gateways of b1, and that of b2."""
    around(network)
    network.controller.begin()
    network.controller.patch(PAIR)
    network.branches[FIRST].join(network.controller.token("b1"))
    network.branches[SECOND].join(network.controller.token("b1", second=True))
    network.branches[OTHER].join(network.controller.token("b2"))
    until(lambda: groups_up(network) == {0: True, 58: True}, "b2 has paths to both")
    until(network.controller.settled)


def around(network: Deployment) -> None:
    """Put a host at a LAN with both gateways."""
    lab = network.lab
    host = lab.namespace(HOST)
    for number in (FIRST, SECOND):
        name = lab.namespaces.name(number)
        run("ip", "-n", name, "address", "delete", f"10.{number}.0.1/32", "dev", "lo")
        lab.at(number, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
    run("ip", "-n", host, "link", "add", "br0", "type", "bridge")
    for number, address in ((FIRST, "10.1.0.1/24"), (SECOND, "10.1.0.2/24")):
        lab.cable((number, "lan0", address), (HOST, f"to{number}", "192.0.2.1/32"))
        run("ip", "-n", host, "address", "flush", "dev", f"to{number}")
        run("ip", "-n", host, "link", "set", f"to{number}", "master", "br0")
    run("ip", "-n", host, "address", "add", "10.1.0.5/24", "dev", "br0")
    run("ip", "-n", host, "link", "set", "br0", "up")


def leave_by(network: Deployment, gateway: str) -> None:
    """Set the host's router, as VRRP would do (RFC 9568)."""
    network.lab.at(HOST, "ip", "route", "replace", "default", "via", gateway)


def silent(network: Deployment, number: int) -> None:
    """Kill a gateway's agent, then its daemon."""
    branch = network.branches[number]
    branch.stop(signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(branch.daemon(), signal.SIGKILL)


def groups_up(network: Deployment) -> dict[int, bool]:
    """Path groups of b2 to b1, and whether some path of each is up."""
    with contextlib.suppress(OSError, ValueError):
        peers = network.branches[OTHER].status()["peers"]
        groups = next((each["groups"] for each in peers if each["branch"] == "b1"), [])
        return {g["id"]: any(path["state"] == "up" for path in g["paths"]) for g in groups}
    return {}
