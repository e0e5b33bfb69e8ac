"""Sensors of a lab: their configuration, their way to the firewall, and what is refused."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any

from overlay_text import emitted
from spec_files import mistakes

from documents import Document, parsed, planned, with_
from hawser.overlay.lab.plan import IdsDaemon, NetworkPlan

TEXT = """
hawser: 1
name: x
title: A sensor and its firewall
topology:
  nodes: [client, n1, server]
  links:
    access: {ends: [client.eth, n1.client]}
    service: {ends: [n1.server, server.eth]}
functions:
  sensor:
    kind: ids
    node: n1
    detection:
      {model: tree.yaml, firewall: fw, scope: pair, lifetime: 1 min, allow: [10.255.0.0/29]}
  fw: {kind: firewall, node: n1, rest: 8443, instances: 2}
chains:
  web: {from: client, to: server, functions: [sensor, fw]}
measurements:
  rtt: {probe: ping, from: client, to: server}
"""
WORKFLOW: Document = parsed(TEXT)
MODEL = '{"sha256": "", "model": {}}'
FILES = {"tree.yaml": MODEL}


def _daemon(plan: NetworkPlan) -> IdsDaemon:
    (found,) = (each for each in plan.daemons if isinstance(each, IdsDaemon))
    return found


def _ids(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = emitted(_daemon(planned(document, FILES)))["ids"]
    return found


def test_a_sensor_has_its_model_and_tells_all_instances_of_the_firewall() -> None:
    plan = planned(WORKFLOW, FILES)
    assert _daemon(plan).files == {"sensor.model.json": MODEL}
    verdicts = _ids(WORKFLOW)["verdicts"]
    addresses = [each["address"].rpartition(":") for each in verdicts["firewalls"]]
    assert [host for host, _, _ in addresses] == [str(plan.addresses[f"fw-{n}"]) for n in (1, 2)]
    assert {port for _, _, port in addresses} == {"8443"}
    assert [each["tls"]["name"] for each in verdicts["firewalls"]] == ["fw-1", "fw-2"]
    assert (verdicts["scope"], verdicts["lifetime_s"]) == ("pair", 60)
    assert (verdicts["allow"], verdicts["dry_run"]) == (["10.255.0.0/29"], False)
    assert "evidence" not in verdicts
    more = with_(WORKFLOW, "functions.sensor.detection.evidence", {"flows": 8, "within": "1 min"})
    known = {"flows": 8, "within_s": 60, "records": 2, "packets": 8}
    assert _ids(more)["verdicts"]["evidence"] == known
    more = with_(WORKFLOW, "functions.sensor.detection.evidence", {"records": 1, "packets": 9})
    assert _ids(more)["verdicts"]["evidence"]["records"] == 1


def test_sensor_and_firewall_reach_each_other() -> None:
    nodes = {node.name: node for node in planned(WORKFLOW, FILES).nodes}
    for here, others in {"sensor": ("fw-1", "fw-2"), "fw-1": ("sensor",)}.items():
        networks = [route.to for route in nodes[here].routes]
        for other in others:
            (port,) = nodes[other].interfaces
            assert IPv4Network(port.addresses[0].network) in networks


def test_without_a_firewall_blocks_are_only_reported() -> None:
    alone = with_(WORKFLOW, "functions.sensor.detection", {"model": "tree.yaml"})
    verdicts = _ids(alone)["verdicts"]
    assert (verdicts["firewalls"], verdicts["dry_run"]) == ([], True)
    recording = with_(WORKFLOW, "functions.sensor", {"kind": "ids", "node": "n1"})
    assert set(_ids(recording)) == {"records"}


def test_a_dead_sensor_takes_no_chain_down() -> None:
    (sff,) = (each for each in planned(WORKFLOW, FILES).daemons if each.role == "sff")
    checked = {each["name"]: each for each in emitted(sff)["functions"]}
    assert "sensor" not in checked
    assert "fw" in checked


def test_what_a_sensor_lacks_is_said_at_its_place() -> None:
    def said(**changed: object) -> str:
        document = WORKFLOW
        for place, value in changed.items():
            document = with_(document, "functions." + place.replace("__", "."), value)
        (found,) = mistakes(json.dumps(document), tree=MODEL)
        return found

    place = "functions.sensor.detection"
    assert "model: cannot read tree.yaml" in mistakes(TEXT)[0]
    for changed, message in (
        ({"sensor__detection__firewall": "wall"}, f"{place}.firewall: found 'wall'"),
        ({"fw__rest": None}, f"{place}.firewall: found fw, which has no rest"),
        ({"sensor__detection__model": None}, f"{place}.firewall: found a firewall without a model"),
        (
            {"sensor__detection__evidence": {"within": "500 ms"}},
            f"{place}.evidence.within: found '500 ms', expected 1 s to",
        ),
        ({"sensor__kind": "forwarder"}, "functions.sensor.detection: found detection, but only a"),
    ):
        assert message in said(**changed)
