"""Changes of a network at work: kept, returned from, and made while the controller is killed.

See tests/lab/controller/network.py for the topology.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from hawser.control.https import ApiError
from hawser.spec.units import Size
from lab.controller.network import CONTROLLER, Deployment
from lab.traffic.transfer import Transfer
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

_log = logging.getLogger(__name__)

VIA_3 = {"far": {"id": 0, "paths": ["b1.wa>b3.wa>b3.wb>b2.wb", "b1.wb>b2.wa"]}}
DIRECT = {"far": {"id": 0, "paths": ["b1.wa>b2.wb", "b1.wb>b2.wa"]}}


def ready(network: Deployment) -> Deployment:
    """Start everything, and wait until it is as it should be."""
    network.start()
    return network


def test_connections_survive_a_change_of_their_path(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as deployed:
        network = ready(deployed)
        transfer = Transfer(network.lab, port=7001, pause=0.02)
        for groups in (VIA_3, DIRECT, VIA_3):
            network.controller.patch({"overlay": {"path_groups": groups}})
            until(network.controller.settled, "the change is kept everywhere")
            until(network.connected, "every branch reaches every other")
        transfer.end()
        versions = network.controller.ask("GET", "/v1/versions")
        assert [each["number"] for each in versions] == [4, 3, 2, 1]
        back = network.controller.ask("POST", "/v1/versions/1/restore", {"reason": "as before"})
        assert back["network"]["overlay"]["path_groups"] == {}
        until(network.controller.settled)
        network.ping(1, 2)


def test_label_bits_change_at_all_gateways_together(tmp_path: Path) -> None:
    """Every port changes, so daemons restart; then a branch can have a number beyond 959."""
    with Deployment(tmp_path, (1, 2, 3)) as deployed:
        network = ready(deployed)
        network.controller.patch({"overlay": {"path_groups": VIA_3}})
        until(network.controller.settled, "the path through branch 3 is kept everywhere")
        changes = ({"label_bits": 5}, {"branches": {"b2": {"id": 1900}}})
        for port, patch in enumerate(changes, 7001):
            network.controller.patch({"overlay": patch})
            until(network.controller.settled, "the change is kept everywhere")
            until(network.connected, "every branch reaches every other")
            network.ping(1, 2)
            Transfer(network.lab, 2 << 20, port=port).end()
        kept = json.loads((network.branches[2].directory / "good.json").read_text())
        document = json.loads(kept["document"])
        assert (document["id"], document["transport"]["label_bits"]) == (1900, 5)


def test_a_configuration_that_cuts_a_branch_off_is_returned_from(tmp_path: Path) -> None:
    """Somebody types addresses that b2 and b3 do not have."""
    with Deployment(tmp_path, (1, 2, 3)) as deployed:
        network = ready(deployed)
        wrong = {
            f"gw{n}.w{letter}": {"address": f"198.18.{n}{number}.77"}
            for n in (2, 3)
            for number, letter in ((1, "a"), (2, "b"))
        }
        network.controller.patch({"ports": wrong})
        returned(network, "b1")
        found = {
            name: each["configuration"] for name, each in network.controller.gateways().items()
        }
        assert found["b1"]["detail"].startswith("b2, b3: reached before, and not any more")
        assert found["b2"]["outcome"] == found["b3"]["outcome"] == "refused"
        assert "no interface has the address 198.18.2" in found["b2"]["detail"]
        assert found["b2"]["state"] == "failed"
        until(network.connected, "every branch reaches every other")
        network.controller.ask("POST", "/v1/versions/1/restore", {"reason": "wrong addresses"})
        until(network.controller.settled)
        network.ping(1, 2)


def test_a_configuration_that_no_controller_confirms_is_returned_from(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as deployed:
        network = ready(deployed)
        controller = network.controller.process
        assert controller
        network.controller.patch({"overlay": {"placement": "least_loaded"}})
        branches = network.branches.values()
        until(lambda: all("trying version 2" in each.log() for each in branches), "they try it")
        controller.send_signal(signal.SIGSTOP)
        gave_up = "version 2: returned: the controller did not confirm it"
        until(lambda: all(gave_up in each.log() for each in branches), "they return")
        for branch in branches:
            assert json.loads((branch.directory / "good.json").read_text())["version"] == 1
        network.ping(1, 2)
        controller.send_signal(signal.SIGCONT)
        # It is tried again when the controller is back.
        until(network.controller.settled, "they keep it")
        assert network.controller.gateways()["b1"]["configuration"]["applied_version"] == 2
        network.ping(1, 2)


def returned(network: Deployment, branch: str) -> None:
    """Wait until a gateway has returned to the configuration of version 1."""
    began = time.monotonic()

    def has_returned() -> bool:
        found = network.controller.gateways()[branch]["configuration"]
        return found["outcome"] == "returned" and found["applied_version"] == 1

    until(has_returned, f"{branch} has returned")
    _log.info("%s returned after %.1f s", branch, time.monotonic() - began)


def test_a_revoked_gateway_is_out(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2, 3)) as deployed:
        network = ready(deployed)
        number = network.controller.gateways()["b3"]["id"]
        body = {"reason": "stolen"}
        began = time.monotonic()
        network.controller.ask("POST", f"/v1/gateways/{number}/revoke", body)
        peers = (network.branches[1], network.branches[2])
        until(lambda: all("b3" not in each.reaches() for each in peers), "no peer reaches it")
        _log.info("out at its peers after %.1f s", time.monotonic() - began)
        found = network.controller.ask("GET", f"/v1/gateways/{number}")
        assert (found["state"], found["reason"]) == ("revoked", "stolen")
        until(lambda: "does not accept this gateway" in network.branches[3].log(), "it is refused")
        until(network.controller.settled, "the others keep their configurations")
        network.ping(1, 2)
        # Its branch gets another gateway.
        network.branches[3].end()
        other = network.lab.folder / "gw3b"
        network.branches[3].directory = other
        network.branches[3].join(network.controller.token("b3"))
        until(network.connected, "every branch reaches every other")
        network.ping(1, 3)


def test_certificates_are_renewed(tmp_path: Path) -> None:
    with Deployment(tmp_path, (1, 2)) as network:
        settings = network.controller.directory / "controller.json"
        document = json.loads(settings.read_text()) | {"certificate_lifetime": "5 min"}
        settings.write_text(json.dumps(document))
        ready(network)
        until(lambda: "renewed" in network.branches[1].log(), "a certificate is renewed")
        until(network.connected)
        network.ping(1, 2)
        one = network.branches[1]
        one.stop()
        one.work()  # it connects with the new one
        until(lambda: "connected to" in one.log().rpartition("renewed")[2], "it is connected")
        until(network.controller.settled)
        actions = {each["action"] for each in network.controller.ask("GET", "/v1/audit")}
        assert "gateway.renew" in actions


KILLS = int(os.environ.get("HAWSER_KILLS", "6"))
"""`make soak-controller` has 50."""
_LONGEST_S = (1.0, 8.0)
"""How long the controller lives while changes are made all the time, and while they are rolled out
in stages, which takes some 12 s."""


def test_a_controller_killed_at_any_moment_leaves_nothing_half_done(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311 (repeatable)
    with Deployment(tmp_path, (1, 2, 3)) as deployed:
        network = ready(deployed)
        acknowledged: dict[int, int] = {}
        for kill in range(KILLS):
            staged = bool(kill % 2)
            changes = threading.Thread(target=change, args=(network, kill, acknowledged, staged))
            changes.start()
            time.sleep(chance.uniform(0, _LONGEST_S[staged]))
            network.controller.stop(signal.SIGKILL)
            changes.join()
            network.controller.begin()
        until(lambda: not rolling(network), "the last roll-out has ended")
        until(network.controller.settled, "database, gateways and API agree")
        until(network.connected, "every branch reaches every other")
        agree(network, acknowledged)
        network.ping(1, 2)


def agree(network: Deployment, acknowledged: dict[int, int]) -> None:
    """Check that database, gateways and API say the same."""
    ask = network.controller.ask
    versions = {each["number"]: each for each in all_versions(network)}
    assert sorted(versions) == list(range(1, len(versions) + 1))
    for number, queue in acknowledged.items():
        found = ask("GET", f"/v1/versions/{number}")
        assert Size.parse(found["network"]["overlay"]["queue"]) == queue * 1000
    rollouts = ask("GET", "/v1/rollouts?limit=200")
    _log.info(
        "%s versions, %s acknowledged, roll-outs: %s",
        len(versions),
        len(acknowledged),
        [each["state"] for each in rollouts],
    )
    for each in rollouts:
        assert each["version"] in versions
        returned = each["state"] == "returned"
        assert returned == (each["returned_by"] is not None)
        if returned:
            assert versions[each["returned_by"]]["restores"] == each["base"]
    assert ask("GET", "/v1/audit/check")["broken"] is None
    desired = Size.parse(ask("GET", "/v1/network")["network"]["overlay"]["queue"])
    for branch in network.branches.values():
        kept = json.loads((branch.directory / "good.json").read_text())
        assert json.loads(kept["document"])["queue_bytes"] == desired


def all_versions(network: Deployment) -> Iterator[Any]:
    before = 2**31 - 1
    while page := network.controller.ask("GET", f"/v1/versions?limit=200&before={before}"):
        yield from page
        before = page[-1]["number"]


def rolling(network: Deployment) -> bool:
    found = network.controller.ask("GET", "/v1/rollouts?limit=1")
    return bool(found) and found[0]["state"] == "running"


def change(network: Deployment, kill: int, acknowledged: dict[int, int], staged: bool) -> None:
    """Change the network until the controller is gone; a roll-out that runs lets nobody."""
    rollout = {"canary": ["b1"], "observe_s": 1} if staged else None
    for number in range(1, 1000):
        queue = 1000 * (kill + 1) + number
        patch = {"overlay": {"queue": f"{queue} kB"}}
        body = {"patch": patch, "reason": "a test", "rollout": rollout}
        try:
            made = network.controller.ask("PATCH", "/v1/network", body)
            acknowledged[made["number"]] = queue
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT or not stopped(network, kill, staged):
                return


def stopped(network: Deployment, kill: int, staged: bool) -> bool:
    """Wait a little for the roll-out, or end it as an operator does; False without a controller."""
    if staged:
        time.sleep(0.05)
        return True
    how = "finish" if kill % 4 else "return"
    with contextlib.suppress(ApiError):
        (found,) = network.controller.ask("GET", "/v1/rollouts?limit=1")
        number = found["number"]
        network.controller.ask("POST", f"/v1/rollouts/{number}/{how}", {"reason": "enough"})
        return True
    return False


def test_a_staged_roll_out_that_cuts_gateways_off_returns_by_itself(tmp_path: Path) -> None:
    """Somebody gives a branch the controller's network: gateways look for it in the tunnel."""
    with Deployment(tmp_path, (1, 2, 3)) as deployed:
        network = ready(deployed)
        transfer = Transfer(network.lab, port=7001, pause=0.02)
        cut = {"prefixes": {"b2": [f"198.18.{CONTROLLER}1.0/24"]}}
        staged = {"canary": ["b1", "b2"], "observe_s": 5}
        body = {"patch": cut, "reason": "a mistake", "rollout": staged}
        began = time.monotonic()
        network.controller.ask("PATCH", "/v1/network", body)
        branches = {f"b{n}": each for n, each in network.branches.items()}
        until(lambda: "trying version 2" in branches["b1"].log(), "the canary tries it")
        rollout = ended(network, "returned")
        until(network.controller.settled, "every gateway has what it should have")
        took = time.monotonic() - began
        _log.info("returned after %.1f s: %s", took, rollout["detail"])
        assert took < 60  # 21 s on an idle machine, of which 15 are patience
        assert "b3" not in str(rollout["stages"][0])
        assert "trying version 2" not in branches["b3"].log()
        newest = network.controller.ask("GET", "/v1/network")
        assert (newest["number"], newest["restores"]) == (3, 1)
        for branch in branches.values():
            kept = json.loads((branch.directory / "good.json").read_text())
            assert f"198.18.{CONTROLLER}1.0" not in kept["document"]
        transfer.end()
        # One that does no harm reaches all of them.
        good = {"patch": {"overlay": {"queue": "2 MB"}}, "reason": "more", "rollout": staged}
        network.controller.ask("PATCH", "/v1/network", good)
        ended(network, "done")
        until(network.controller.settled, "every gateway has what it should have")
        for branch in branches.values():
            kept = json.loads((branch.directory / "good.json").read_text())
            assert json.loads(kept["document"])["queue_bytes"] == 2_000_000


def ended(network: Deployment, state: str) -> Any:  # noqa: ANN401 (JSON)
    """Wait for the end of the newest roll-out."""
    found: list[Any] = []

    def has_ended() -> bool:
        found[:] = network.controller.ask("GET", "/v1/rollouts?limit=1")
        return bool(found[0]["state"] != "running")

    until(has_ended, "the roll-out has ended")
    assert found[0]["state"] == state, found
    return found[0]
