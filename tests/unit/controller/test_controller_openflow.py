"""OpenFlow switches of a network: what gateways are told, and the OpenFlow controller."""

from __future__ import annotations

import json
from pathlib import Path

from controller_sample import Api, Machine

from hawser.agent.state import Kept
from hawser.control.link import PROTOCOL, SwitchHello
from hawser.controller.context import Context
from hawser.controller.jobs.openflow import SwitchControl
from hawser.overlay.config.bridge import Stations
from hawser.overlay.sdwan.flow import flows

OPENFLOW = {"patch": {"overlay": {"switch": "openflow"}}, "reason": "a test"}
BPF = {"patch": {"overlay": {"switch": "bpf"}}, "reason": "a test"}


def test_a_gateway_and_its_switch_share_what_a_bpf_switch_has(api: Api, context: Context) -> None:
    api.do("PATCH", "/v1/network", BPF)
    before = json.loads(context.watch.plan().desired["b1"].document)
    api.do("PATCH", "/v1/network", OPENFLOW)
    desired = context.watch.plan().desired["b1"]
    kept = Kept(version=1, digest=desired.digest, document=desired.document)
    config, bridge = kept.config(), kept.bridge()
    assert bridge == desired.bridge
    assert bridge is not None
    assert [each["name"] for each in before["switch"]["entries"]] == [
        each.name for each in bridge.entries
    ]
    assert config.switch is not None
    assert config.wan is not None
    assert [port.interface for port in bridge.ports] == ["a", "b"]
    assert [port.interface for port in config.switch.ports] == ["mpa_0", "mpa_1"]
    assert config.wan.interfaces == ("mpa_0", "mpa_1"), "what arrives is filtered behind it"
    assert config.switch.entries == ()
    assert "ovs-vswitchd" in desired.needs


def test_frames_have_the_addresses_that_the_gateway_has_said(api: Api, context: Context) -> None:
    api.do("PATCH", "/v1/network", OPENFLOW)
    bridge = context.watch.plan().desired["b1"].bridge
    assert bridge is not None
    known = {"a": Stations(own="52:54:00:00:00:0A", next_hop="52:54:00:00:00:01")}
    written = {
        (dict(flow.write)["eth_src"], dict(flow.write)["eth_dst"])
        for flow in flows(bridge.switch("b1", known))
        if flow.output is not None and flow.kind == "entry" and flow.output < 1001
    }
    assert written == {
        ("52:54:00:00:00:0a", "52:54:00:00:00:01"),
        ("02:00:c0:00:02:16", "02:00:c0:00:02:15"),
    }, "those of a port that nobody knows follow from its IPv4 addresses"


def test_the_state_of_a_switch_is_shown(api: Api) -> None:
    token = api.do("POST", "/v1/tokens", {"branch": "b1"})["token"]
    Machine().join(api, token)
    assert api.get("/v1/gateways")[0]["switch"] is None
    api.do("PATCH", "/v1/network", OPENFLOW)
    away = {"connected": False, "installed": False, "flows": 0, "fault": None}
    assert api.get("/v1/gateways")[0]["switch"] == away


def test_switches_of_mptcp_are_refused(api: Api) -> None:
    patch = {"overlay": {"switch": "openflow", "transport": "mptcp"}}
    answer = api.call("PATCH", "/v1/network", {"patch": patch, "reason": "a test"})
    assert answer.status_code == 422
    errors = {each["field"]: each["message"] for each in answer.json()["errors"]}
    wanted = (
        "found openflow with the mptcp transport, expected quic: agents move no MPTCP endpoints"
    )
    assert errors["overlay.switch"] == wanted


def test_the_openflow_controller_is_told_of_connected_switches(
    api: Api, context: Context, tmp_path: Path
) -> None:
    control = SwitchControl(tmp_path / "openflow")
    api.do("PATCH", "/v1/network", OPENFLOW)
    plan = context.watch.plan()
    control.take(plan)
    control.work()
    assert control.state() == {}, "nothing runs for nobody"
    has = {
        name: SwitchHello(protocol=PROTOCOL, digest=each.digest)
        for name, each in plan.desired.items()
    }
    try:
        assert control.join("b1", has["b1"])
        assert control.state().keys() == {"b1"}
        assert control.join("b2", has["b2"])
        assert control.state().keys() == {"b1", "b2"}
        control.leave("b1")
        control.work()
        assert control.state().keys() == {"b2"}
        assert not control.join("b1", SwitchHello(protocol=PROTOCOL, digest="0" * 64))
        assert control.state().keys() == {"b2"}, "nobody knows what it should have"
        api.do("PATCH", "/v1/network", {"patch": {"mtu": 1400}, "reason": "a test"})
        control.take(context.watch.plan())
        assert control.join("b1", has["b1"]), "it has what it had before"
    finally:
        control.stop()
    assert control.state() == {}
