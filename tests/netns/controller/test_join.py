"""From tokens to traffic, over a controller and agents as they are started by hand.

See tests/lab/controller/network.py for the topology.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from ipaddress import ip_address
from itertools import permutations
from pathlib import Path

import pytest

from hawser.control.https import ApiError
from lab.controller.network import Deployment
from lab.namespace import run
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

_log = logging.getLogger(__name__)


@pytest.mark.parametrize("branches", [(1, 2, 3), (1, 2, 3, 4, 5)])
def test_from_tokens_to_traffic(tmp_path: Path, branches: tuple[int, ...]) -> None:
    with Deployment(tmp_path, branches) as network:
        network.controller.begin()
        began = time.monotonic()
        network.join_all()
        until(network.connected, "every branch reaches every other")
        for one, other in permutations(branches, 2):
            network.ping(one, other)
        _log.info("%s branches: traffic after %.1f s", len(branches), time.monotonic() - began)
        until(lambda: known(network), "the controller knows that it is so")
        found = network.controller.gateways()
        number = found["b1"]["id"]
        until(lambda: statistics(network, number), "statistics of packets to b2")


def test_branches_whose_accesses_have_ipv6_alone(tmp_path: Path) -> None:
    with Deployment(
        tmp_path, (1, 2, 3), ipv6_alone=("1a", "1b", "2a", "2b", "3a", "3b")
    ) as network:
        network.start()
        through = {"paths": ["b1.wa>b3.wa>b3.wb>b2.wb", "b1.wb>b2.wb"]}
        network.controller.patch({"overlay": {"path_groups": {"through": through}}})
        until(network.controller.settled, "the way through b3 is in force")
        until(network.connected)
        network.ping(1, 2)
        passed = network.branches[3].configuration()["switch"]
        assert all("address" not in port for port in passed["ports"])
        entries = network.branches[3].counters()["switch"]["entries"]
        assert any(each["packets"] for each in entries if "transit" in each["name"])


def test_lines_of_ipv4_beside_lines_of_ipv6(tmp_path: Path) -> None:
    """Paths join ports of the same version, and one of IPv6 leads through a branch of IPv6."""
    with Deployment(tmp_path, (1, 2, 3), ipv6_alone=("1b", "2b", "3a", "3b")) as network:
        network.start()
        through = {"paths": ["b1.wb>b3.wa>b3.wb>b2.wb", "b1.wa>b2.wa"]}
        network.controller.patch({"overlay": {"path_groups": {"through": through}}})
        until(network.controller.settled, "the way through b3 is in force")
        for one, other in ((1, 2), (1, 3), (2, 3)):
            network.ping(one, other)
        until(lambda: versions(network, 2) == [6, 4], "both paths between b1 and b2 are up")
        assert versions(network, 3) == [6, 6]


def versions(network: Deployment, other: int) -> list[int]:
    """Versions of IP of the paths from b1 to another branch that are up."""
    peers = {peer["branch"]: peer for peer in network.branches[1].status()["peers"]}
    (group,) = peers[f"b{other}"]["groups"]
    up = (path for path in group["paths"] if path["state"] == "up")
    return [ip_address(path["local"]).version for path in up]


def known(network: Deployment) -> bool:
    """Whether the controller knows that every gateway is as it should be and reaches all others."""
    found = network.controller.gateways()
    return network.controller.settled() and all(
        each["connected"]
        and set(each["peers"]) == set(found) - {branch}
        and all(each["peers"].values())
        for branch, each in found.items()
    )


def statistics(network: Deployment, number: int) -> bool:
    network.ping(1, 2)
    try:
        found = network.controller.ask("GET", f"/v1/gateways/{number}/statistics")
    except ApiError:
        return False
    values = found["values"]
    return values.get("class/b2/II/sent", 0) > 0 and values["path/b2/0/0/rtt"] > 0


def test_a_daemon_that_ends_is_started_again(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        network.start()
        one = network.branches[1]
        before = one.daemon()
        os.kill(before, signal.SIGKILL)
        until(lambda: one.daemon() != before and network.connected(), "it is there again")
        network.ping(1, 2)
        # The agent's end is not the daemon's.
        one.stop(signal.SIGKILL)
        network.ping(1, 2)
        one.work()
        until(lambda: network.controller.gateways()["b1"]["connected"], "the agent is back")
        assert one.daemon() != before
        network.ping(1, 2)


def test_gateways_reconnect_to_a_backup_on_another_machine(tmp_path: Path) -> None:
    """The controller's machine burns down; its address goes to another one."""
    with Deployment(tmp_path, (1, 2, 3)) as network:
        controller = network.controller
        controller.begin()
        network.branches[1].join(controller.token("b1"))
        network.branches[2].join(controller.token("b2"))
        until(lambda: reached(network, 1, 2), "two branches reach each other")
        until(controller.settled, "the controller knows that it is so")
        later, before = controller.token("b3"), controller.ask("GET", "/v1/versions")
        backup = tmp_path / "backup"
        command = (sys.executable, "-m", "hawser.cli", "controller", "backup")
        run(*command, str(controller.directory), str(backup))
        controller.stop(signal.SIGKILL)
        shutil.rmtree(controller.directory)
        controller.moved(backup)
        began = time.monotonic()
        controller.begin()
        until(lambda: all(each["connected"] for each in controller.gateways().values()))
        _log.info("reconnected after %.1f s", time.monotonic() - began)
        until(controller.settled, "they have the configurations that they should have")
        assert controller.ask("GET", "/v1/versions") == before
        assert controller.ask("GET", "/v1/audit/check")["broken"] is None
        # It is the same controller: it changes the network, and takes the token it gave out.
        controller.patch({"overlay": {"placement": "least_loaded"}})
        network.branches[3].join(later)
        until(network.connected, "every branch reaches every other")
        until(controller.settled, "the change is in force")
        assert all(not each["warnings"] for each in controller.gateways().values())


def reached(network: Deployment, one: int, other: int) -> bool:
    with contextlib.suppress(OSError):
        return f"b{other}" in network.branches[one].reaches()
    return False


def test_gateways_work_without_their_controller(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        network.start()
        network.controller.stop(signal.SIGKILL)
        network.ping(1, 2)
        one = network.branches[1]
        one.end()  # the machine starts anew
        one.work()
        until(network.connected)
        network.ping(1, 2)
        # What is changed meanwhile reaches them when the controller is back.
        network.controller.begin()
        network.controller.patch({"overlay": {"placement": "least_loaded"}})
        until(network.controller.settled)
        network.ping(1, 2)
