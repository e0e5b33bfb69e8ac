"""A workflow's sensor and firewall in a lab: the way from one to the other, and a block.

client --- n1 --- server        functions sensor and fw at n1
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from documents import parsed, planned
from hawser.driver.local import LocalLab
from hawser.node.netns import namespace
from hawser.overlay.lab.plan import NetworkPlan
from lab import control
from lab.function import model
from lab.traffic.chains import ping_all
from lab.waiting import until

pytestmark = pytest.mark.root

WORKFLOW = parsed("""\
hawser: 1
name: detection
title: A sensor and its firewall
topology:
  nodes: [client, n1, server]
  links:
    access: {ends: [client.eth, n1.client]}
    service: {ends: [n1.server, server.eth]}
functions:
  sensor: {kind: ids, node: n1, detection: {model: flood.json, firewall: fw, scope: flow}}
  fw: {kind: firewall, node: n1, rest: 8443, stateful: true}
chains:
  web: {from: client, to: server, functions: [sensor, fw]}
measurements: {rtt: {probe: ping, from: client, to: server}}
""")
DISCARD = 9


def test_a_flood_through_a_workflows_chain_is_blocked(
    deploy: Callable[[NetworkPlan], LocalLab], tmp_path: Path
) -> None:
    lab = deploy(planned(WORKFLOW, {"flood.json": model.text(model.UNANSWERED)}))
    client, server = (str(lab.plan.addresses[name]) for name in ("client", "server"))
    place = lab.nodes["client"].namespace

    def told(daemon: str, path: str) -> Mapping[str, Any]:
        status, text = control.ask(lab.daemons[daemon].control, "GET", path)
        assert status == 200, text
        return dict(parsed(text))

    def blocked() -> bool:
        for _ in range(20):
            flood.sendto(bytes(64), (server, DISCARD))
        return any(each["state"] == "in_force" for each in told("sensor", "/v1/blocks")["blocks"])

    flood = namespace.inside(place, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with flood:
        until(blocked, "the firewall has the rule")
    (rule,) = told("fw", "/v1/rules")["rules"]
    assert (rule["source"], rule["destination"]) == (f"{client}/32", f"{server}/32")
    assert (rule["protocol"], rule["destination_ports"]) == (17, [DISCARD, DISCARD])
    assert ping_all(place, server, 20) == 20, "other flows of the same host pass"
    lab.collect(tmp_path)
    assert list((tmp_path / "records" / "sensor").glob("records-*.jsonl")), "a trial keeps them"
