"""A lab with a controller: its plan says what the controller then computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hawser.agent.state import Kept
from hawser.controller.policy.configuration import desired, digest_of
from hawser.controller.policy.version import document_of, network_of
from hawser.overlay.config.gateway import GatewayConfig
from hawser.overlay.lab import network
from hawser.overlay.lab.plan import GatewayDaemon
from hawser.spec import load
from hawser.spec.overlay import SwitchKind
from hawser.spec.workflow import Scenario

ROOT = Path(__file__).resolve().parents[3]


def scenario(**overlay: Any) -> Scenario:  # noqa: ANN401
    path = ROOT / "workflows" / "controller-five-branches.yaml"
    found = load(str(path), lambda name: Path(name).read_bytes()).variants[0].scenario
    assert found.overlay
    changed = found.overlay.model_copy(update=overlay)
    return found.model_copy(update={"overlay": changed})


VIA_3 = {
    "bulk": {"class": "II", "paths": ["b1.a>b3.a>b3.b>b2.b", "b1.b>b2.b"]},
    "urgent": {"class": "I", "paths": ["b1.a>b2.a"]},
}


@pytest.mark.parametrize(
    "overlay",
    [
        {},
        {"transport": "mptcp", "path_groups": {}},
        {"path_groups": VIA_3},
        {"transport": "mptcp", "path_groups": {}, "switch": "bpf"},
    ],
)
def test_gateways_get_what_the_plan_says(overlay: dict[str, Any]) -> None:
    """Only the control socket is elsewhere, which agents choose themselves.

    Ports have rates, so flow entries carry the priority classes of 004 as they do in a lab.
    """
    document = scenario().model_dump(by_alias=True)
    whole = Scenario.model_validate(document | {"overlay": document["overlay"] | overlay})
    plan = network(whole)
    assert plan.controller
    checked = network_of(document_of(plan.controller.network))
    made = desired(checked, 1, ())
    daemons = [each for each in plan.daemons if isinstance(each, GatewayDaemon)]
    assert len(daemons) == 5
    entries = [each for d in daemons if d.config.switch for each in d.config.switch.entries]
    classes = {each.output.class_ for each in entries if each.output != "agent"}
    assert None not in classes
    assert len(classes) == (3 if overlay.get("path_groups") == VIA_3 else 1 if entries else 0)
    for daemon in daemons:
        assert daemon.joined
        assert str(daemon.config.control) == f"agents/{daemon.name}/gateway.sock"
        config = GatewayConfig.model_validate_json(made[daemon.config.branch].document)
        same = daemon.config.model_copy(update={"control": config.control})
        assert digest_of(same.model_dump_json()) == made[daemon.config.branch].digest


def test_agents_make_openflow_switches_of_what_the_plan_says() -> None:
    plan = network(scenario(switch=SwitchKind.OPENFLOW))
    assert plan.controller
    assert not plan.switches, "the driver makes none"
    made = desired(network_of(document_of(plan.controller.network)), 1, ())
    daemons = [each for each in plan.daemons if isinstance(each, GatewayDaemon)]
    assert len(daemons) == len(made) == 5
    hops = set()
    for daemon in daemons:
        wanted = made[daemon.config.branch]
        kept = Kept(version=1, digest=wanted.digest, document=wanted.document)
        assert daemon.config.switch == kept.config().switch
        assert daemon.config.wan == kept.config().wan
        assert wanted.bridge
        hops |= {port.next_hop for port in wanted.bridge.ports}
    interfaces = [each for node in plan.nodes for each in node.interfaces]
    found = {each.offload for each in interfaces if hops & set(each.ipv4)}
    assert found == {False}, "frames leave the WAN whole"


def test_a_lab_without_a_controller_configures_its_gateways() -> None:
    plan = network(scenario().model_copy(update={"controller": None}))
    assert plan.controller is None
    assert not any(isinstance(each, GatewayDaemon) and each.joined for each in plan.daemons)
