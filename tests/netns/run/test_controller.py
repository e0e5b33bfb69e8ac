"""A lab whose gateways join a controller, as gateways of a network do.

 h1         gw1                                    gw2         h2
+-----+    +------------+      +----------+      +------------+    +-----+
| lan |----| lan      a |------|          |------| a      lan |----| lan |
+-----+    +------------+      | internet |      +------------+    +-----+
10.1.0.0/24                    |          |                       10.2.0.0/24
                 ssc2 +---+    |          |
                      | a |----|          |
                      +---+    +----------+
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hawser.driver.base import DriverError
from hawser.driver.local import LocalDriver, LocalLab
from hawser.node.netns import namespace
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan
from hawser.probe.passive import Passive
from hawser.spec.workflow import Change, Scenario
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

Deploy = Callable[[NetworkPlan], LocalLab]


def plan(**overlay: Any) -> NetworkPlan:  # noqa: ANN401
    branches = {
        f"b{n}": {
            "id": n,
            "gateway": f"gw{n}",
            "wan": ["a"],
            "lan": "lan",
            "prefix": f"10.{n}.0.0/24",
        }
        for n in (1, 2)
    }
    scenario = {
        "topology": {
            "nodes": {name: {} for name in ("h1", "gw1", "gw2", "h2", "ssc2")},
            "links": {f"lan{n}": {"ends": (f"h{n}.lan", f"gw{n}.lan")} for n in (1, 2)},
            "internet": {"ports": {"gw1.a": {}, "gw2.a": {}, "ssc2.a": {}}},
        },
        "controller": {"node": "ssc2"},
        "overlay": {"transport": "quic", "branches": branches} | overlay,
        "measurements": {"rtt": {"probe": "ping", "from": "h1", "to": "h2"}},
    }
    return network(Scenario.model_validate(scenario))


def kept(lab: LocalLab, gateway: str) -> dict[str, Any]:
    found = json.loads((lab.directory / "agents" / gateway / "good.json").read_text())
    document: dict[str, Any] = json.loads(found["document"])
    return document


def test_gateways_join_and_are_changed_by_the_controller(
    deploy: Deploy, driver: LocalDriver
) -> None:
    lab = deploy(plan())
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3
    with Passive(lab) as passive:
        samples = passive.finish()
    onboarding = [each.value for each in samples if each.metric == "onboarding_time"]
    assert onboarding == [lab.onboarding]
    assert onboarding[0] > 0
    # Another process sees the same daemons.
    other = driver.attach(lab.name)
    assert {name: each.pid for name, each in other.daemons.items()} == {
        name: each.pid for name, each in lab.daemons.items()
    }
    # A change by the API, refused and taken.
    element = "controller:ssc2"
    with pytest.raises(DriverError, match=r"overlay\.queue"):
        lab.apply(element, Change(network={"overlay": {"queue": "many"}}))
    lab.apply(element, Change(network={"overlay": {"queue": "2 MB"}}))
    gateways = ("gw1", "gw2")
    until(lambda: all(kept(lab, name)["queue_bytes"] == 2_000_000 for name in gateways))
    # Gateways go on without it, and it comes back.
    lab.apply(element, Change(up=False))
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3
    lab.apply(element, Change(up=True))
    assert lab.controller
    until(lab.controller.settled, "the controller is back")
    assert lab.faults() == ()
    assert all(each.restarts == 0 for each in lab.daemons.values())
    lab.destroy()
    assert not namespace.names(f"hawser.{lab.name}.")
    assert not lab.directory.exists()
