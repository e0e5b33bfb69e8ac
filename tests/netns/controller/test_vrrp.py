"""Hosts of a branch with two gateways leave one that reaches nobody (VRRP, by keepalived).

See tests/netns/controller/test_pair.py for the topology.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from lab import ROOT
from lab.controller.network import Deployment
from lab.waiting import until
from netns.controller.test_pair import FIRST, HOST, SECOND, joined, leave_by

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.mark.skipif(not shutil.which("keepalived"), reason="keepalived (Debian) lacks")
def test_hosts_leave_a_gateway_that_reaches_nobody(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as network:
        joined(network)
        for number, priority in ((FIRST, 150), (SECOND, 100)):
            keepalived(network, number, priority)
        leave_by(network, ROUTER)
        until(lambda: has_router(network) == [FIRST], "the first is the hosts' router")
        until(lambda: host_answered(network))
        lines(network, "down")
        until(lambda: has_router(network) == [SECOND], "the second is")
        until(lambda: host_answered(network))
        lines(network, "up")
        until(lambda: has_router(network) == [FIRST], "the first is again")
        until(lambda: host_answered(network))


ROUTER = "10.1.0.254"
_KEEPALIVED = """
global_defs {{
  script_user root
}}
vrrp_script reaches {{
  script "{script}"
  interval 3
  timeout 30
  fall 2
  rise 2
}}
vrrp_instance lan {{
  state BACKUP
  interface lan0
  virtual_router_id 51
  priority {priority}
  advert_int 1
  virtual_ipaddress {{
    10.1.0.254/24
  }}
  track_script {{
    reaches
  }}
}}
"""


def keepalived(network: Deployment, number: int, priority: int) -> None:
    """Run VRRP at a gateway, as the guide configures it."""
    folder = network.branches[number].directory
    script, file = folder / "check", folder / "keepalived.conf"
    command = (sys.executable, "-m", "hawser.cli", "gateway", "check", "--directory", str(folder))
    script.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT / 'src'} exec {' '.join(command)}\n")
    script.chmod(0o755)
    file.write_text(_KEEPALIVED.format(script=script, priority=priority))
    files = ("-f", str(file), "-p", str(folder / "vrrp.pid"), "-r", str(folder / "vrrp-child.pid"))
    with (folder / "keepalived.log").open("wb") as log:
        network.lab.start(number, "keepalived", "-n", "-l", *files, stdout=log, stderr=log)


def lines(network: Deployment, state: str) -> None:
    """Cut the first gateway's lines, or join them again, at the other ends."""
    for letter in "ab":
        network.lab.at(0, "ip", "link", "set", f"i{FIRST}{letter}", state)


def has_router(network: Deployment) -> list[int]:
    """Gateways that have the address of the hosts' router."""
    show = ("ip", "-o", "address", "show", "dev", "lan0")
    return [each for each in (FIRST, SECOND) if f"{ROUTER}/" in network.lab.at(each, *show)]


def host_answered(network: Deployment) -> bool:
    command = ("ping", "-c", "1", "-W", "2", "10.2.0.1")
    return " 1 received" in network.lab.at(HOST, *command, check=False)
