"""The real `hawserd gateway` in a lab: its answers fit the contract, and the driver keeps it alive.

   h1         gw1                                    gw2         h2
  +-----+    +------------+      +----------+      +------------+    +-----+
  | lan |----| lan      a |------|          |------| a      lan |----| lan |
  +-----+    |          b |------| internet |------| b          |    +-----+
  10.1.0.0/24+------------+      +----------+      +------------+10.2.0.0/24

Each WAN port has 40 Mbit/s.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from hawser.control.client import ControlError, DaemonClient
from hawser.driver.base import DriverError
from hawser.driver.local import LocalLab
from hawser.driver.roles import hawserd
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import NetworkPlan
from hawser.spec.workflow import Scenario
from lab import ROOT
from lab.traffic.nodes import ping
from lab.waiting import until

Deploy = Callable[[NetworkPlan], LocalLab]
SCHEMAS = ROOT / "schemas"


def _unusable() -> str | None:
    """Why the daemon cannot be tested, if so."""
    try:
        command = [str(hawserd()), "schema", "gateway-status"]
    except DriverError as error:
        return str(error)
    done = subprocess.run(command, capture_output=True, check=False)
    return None if done.returncode == 0 and done.stdout else "hawserd is built, but has no gateway"


_WHY = _unusable()
pytestmark = [pytest.mark.root, pytest.mark.skipif(_WHY is not None, reason=_WHY or "")]


def plan(transport: str = "mptcp", encryption: str = "tls13") -> NetworkPlan:
    ports = [f"gw{number}.{port}" for number in (1, 2) for port in "ab"]
    scenario = {
        "topology": {
            "nodes": {name: {} for name in ("h1", "gw1", "gw2", "h2")},
            "links": {f"lan{n}": {"ends": (f"h{n}.lan", f"gw{n}.lan")} for n in (1, 2)},
            "internet": {"ports": {port: {"rate": "40 Mbit/s"} for port in ports}},
        },
        "overlay": {
            "transport": transport,
            "encryption": encryption,
            "branches": {
                f"b{n}": {
                    "id": n,
                    "gateway": f"gw{n}",
                    "wan": ["a", "b"],
                    "lan": "lan",
                    "prefix": f"10.{n}.0.0/24",
                }
                for n in (1, 2)
            },
        },
        "measurements": {"rtt": {"probe": "ping", "from": "h1", "to": "h2"}},
    }
    return network(Scenario.model_validate(scenario))


def schema(name: str) -> dict[str, Any]:
    text = subprocess.run([str(hawserd()), "schema", name], capture_output=True, check=True).stdout
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.mark.parametrize(
    ("transport", "encryption"), [("mptcp", "tls13"), ("mptcp", "none"), ("ipip", "none")]
)
def test_hosts_reach_each_other_through_the_gateways(
    deploy: Deploy, transport: str, encryption: str
) -> None:
    lab = deploy(plan(transport, encryption))
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3
    assert ping(lab.nodes["h2"], str(lab.plan.addresses["h1"])) == 3


def test_answers_fit_their_schemas_and_models(deploy: Deploy) -> None:
    lab = deploy(plan())
    assert ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3
    with DaemonClient(lab.daemons["gw1"].control) as client:
        status = client.status()
        assert (status.role, status.branch, status.connected) == ("gateway", "b1", True)
        assert [peer.branch for peer in status.peers] == ["b2"]
        until(lambda: client.status().peers[0].groups[0].subflows == 4)
        for name, path in (("gateway-status", "status"), ("gateway-counters", "counters")):
            answer = json.loads(client._request("GET", f"/v1/{path}"))
            jsonschema.validate(answer, schema(name))
        config = client.config(GatewayConfig)
        jsonschema.validate(config.model_dump(mode="json"), schema("gateway-config"))
        assert "hawser_gateway" in client.metrics()


def test_published_schemas_are_those_of_the_daemon() -> None:
    for name in (
        "gateway-config",
        "gateway-status",
        "gateway-counters",
        "gateway-train",
        "gateway-train-request",
    ):
        published = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        assert published == schema(name)


def test_the_drivers_configuration_is_valid() -> None:
    for each in ("mptcp", "ipip"):
        for daemon in plan(each).daemons:
            jsonschema.validate(daemon.config.model_dump(mode="json"), schema("gateway-config"))


def test_a_bad_configuration_is_refused_field_by_field(deploy: Deploy) -> None:
    lab = deploy(plan())
    with DaemonClient(lab.daemons["gw1"].control) as client:
        before = client.config(GatewayConfig)
        wrong = before.peers[0].model_copy(update={"id": 99})
        with pytest.raises(ControlError, match=r"422: .*peers\[0\]\.id.*99"):
            client.configure(before.model_copy(update={"peers": (wrong,)}))
        assert client.config(GatewayConfig) == before
        client.configure(before)
        assert client.status().connected


def test_a_killed_gateway_comes_back_and_carries_packets(deploy: Deploy) -> None:
    lab = deploy(plan())
    os.kill(lab.daemons["gw2"].pid, signal.SIGKILL)
    until(lambda: lab.daemons["gw2"].restarts == 1)
    until(lambda: ping(lab.nodes["h1"], str(lab.plan.addresses["h2"])) == 3)
