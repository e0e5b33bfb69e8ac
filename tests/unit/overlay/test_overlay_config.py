"""Configurations against the daemons' schemas, in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import PurePosixPath
from typing import Any, get_args

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python
from spec_files import ROOT, WORKFLOWS, read

from hawser.overlay.config import (
    classifier,
    function,
    gateway,
    ipsec,
    load,
    openflow,
    srv6_proxy,
    wan,
)
from hawser.overlay.config.base import Configuration
from hawser.overlay.lab import NetworkPlan, network
from hawser.overlay.lab.emulator import emulated
from hawser.spec import load as load_file
from hawser.spec.chain import Action
from hawser.spec.overlay import (
    Congestion,
    Oversize,
    Placement,
    Recovery,
    TcpProxyMode,
    TrafficType,
)

FORMS: dict[str, tuple[type[BaseModel], ...]] = {
    "gateway-config": (gateway.GatewayConfig,),
    "wan-config": (wan.WanConfig,),
    "function-config": (
        function.SffConfig,
        function.ForwarderConfig,
        function.FirewallConfig,
        function.IdsConfig,
    ),
    "firewall-rules": (function.FirewallRules,),
    "srv6-proxy-config": (srv6_proxy.Srv6ProxyConfig,),
    "classifier-config": (classifier.ClassifierConfig,),
    "ipsec-config": (ipsec.IpsecConfig,),
    "openflow-config": (openflow.ControllerConfig,),
    "load-config": (load.LoadConfig,),
}
SCHEMA_OF_ROLE = {
    "sff": "function-config",
    "forwarder": "function-config",
    "firewall": "function-config",
    "ids": "function-config",
}
FILES = {path.stem: path for path in WORKFLOWS}


@cache
def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
    return found


def valid(name: str, document: object) -> None:
    jsonschema.Draft202012Validator(schema(name)).validate(document)


@pytest.mark.parametrize("name", FORMS)
def test_models_have_the_fields_and_defaults_of_the_schema(name: str) -> None:
    whole = schema(name)
    differences = list(_differences(whole, [whole], FORMS[name], name))
    assert not differences


def _differences(
    whole: dict[str, Any],
    nodes: list[dict[str, Any]],
    forms: tuple[type[BaseModel], ...],
    where: str,
) -> Iterator[str]:
    """What one side has and the other has not, at every depth."""
    properties: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        for name, value in node.get("properties", {}).items():
            properties.setdefault(name, []).append(value)
    fields: dict[str, set[type[BaseModel]]] = {}
    for form in forms:
        for own, field in form.model_fields.items():
            name = field.alias or own
            nested = fields.setdefault(name, set())
            nested |= set(_models(field.annotation))
            if not field.is_required():
                default = to_jsonable_python(field.get_default(call_default_factory=True))
                stated = [p["default"] for p in properties.get(name, []) if "default" in p]
                yield from (f"{where}.{name}: {default}, not {s}" for s in stated if s != default)
    yield from (f"{where}: only one has {name}" for name in properties.keys() ^ fields.keys())
    for name in properties.keys() & fields.keys():
        if fields[name]:
            inside = [each for value in properties[name] for each in _objects(whole, value)]
            yield from _differences(whole, inside, tuple(fields[name]), f"{where}.{name}")


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


def _objects(whole: dict[str, Any], node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object schemas that a node stands for."""
    if "$ref" in node:
        node = whole["$defs"][node["$ref"].rpartition("/")[2]]
    if "properties" in node:
        yield node
    for each in (*node.get("anyOf", ()), *node.get("oneOf", ()), node.get("items", {})):
        if each:
            yield from _objects(whole, each)


PLANNED = [
    *("five-branches", "mms-network", "switch-kinds", "quic-settings", "urgent-first"),
    *("chain-compare", "sfc-fig8", "srv6-fig5-7", "ipsec-compare", "added-delay"),
]


@pytest.mark.parametrize("name", PLANNED)
def test_planned_configurations_fit_the_schema(name: str) -> None:
    variants = load_file(str(FILES[name]), read).variants
    for variant in (variants[0], variants[-1]):
        plan = emulated(network(variant.scenario))
        for daemon in plan.daemons:
            form = SCHEMA_OF_ROLE.get(daemon.role, f"{daemon.role}-config")
            valid(form, daemon.config.model_dump(mode="json"))
            for rules in daemon.files.values():
                valid("firewall-rules", rules.model_dump(mode="json"))


@pytest.mark.parametrize("name", PLANNED)
def test_plans_come_back_from_json(name: str) -> None:
    plan = emulated(network(load_file(str(FILES[name]), read).variants[0].scenario))
    assert NetworkPlan.model_validate_json(plan.model_dump_json()) == plan


TLS = gateway.Tls(
    certificate=PurePosixPath("pki/b1.pem"),
    key=PurePosixPath("/etc/b1.key"),
    ca=PurePosixPath("pki/ca.pem"),
    revoked=("00" * 32,),
    revoked_file=PurePosixPath("revoked"),
)
GATEWAY = gateway.GatewayConfig(
    branch="b1",
    id=1,
    control=PurePosixPath("gw1.sock"),
    tun=gateway.Tun(name="hawser0", mtu=1500),
    source=IPv4Address("10.1.0.1"),
    source6=IPv6Address("fd00::1"),
    transport=gateway.QuicTransport(
        tls=TLS,
        udp_offload=False,
        tcp_proxy={TrafficType.II: TcpProxyMode.TCP},
        congestion=Congestion.BBR,
        recovery=Recovery.NONE,
        resequence=False,
        header_compression=False,
        oversize=Oversize.FRAGMENT,
    ),
    peers=(),
    placement=Placement.ROUND_ROBIN,
    classifier=gateway.Classifier(
        lan="lan",
        rules=(gateway.ClassifierRule(name="voice", protocol=17, dscp=46, type=TrafficType.I),),
    ),
)
FIREWALL = function.FirewallConfig(
    control=PurePosixPath("fw.sock"),
    ports=(function.Port(name="f0", interface="f0", otherwise=function.ToPort(port="f0")),),
    oam="forward",
    firewall=function.Firewall(
        rules_file=PurePosixPath("fw.rules.json"),
        otherwise=Action.DENY,
        remember=function.Remember(),
        rest=function.Rest(
            listen="10.0.0.1:80",
            token_file=PurePosixPath("token"),
            tls=function.Tls(certificate=PurePosixPath("pem"), key=PurePosixPath("key")),
        ),
    ),
)
SFF = function.SffConfig(
    control=PurePosixPath("n1.sock"),
    ports=(function.Port(name="a", interface="a"),),
    rules=(
        function.Rule(
            spi=1,
            source=IPv4Network("10.0.0.0/8"),
            metadata=function.VariableMetadata(
                variable=(function.Tlv(class_=1, type=2, data="00ff"),)
            ),
        ),
    ),
)
IPSEC = ipsec.IpsecConfig(
    control=PurePosixPath("control"),
    device="esp0",
    mtu=1400,
    interface="f0",
    local=IPv4Address("10.0.0.1"),
    remote=IPv4Address("10.0.0.2"),
    ike=ipsec.Ike(
        command=("charon",),
        port=500,
        peer_port=500,
        rekey=ipsec.Rekey(command=("swanctl",), after=9),
    ),
)
SENT = load.Send(
    port=load.Port(interface="load", netns="x"),
    traffic=load.Streams(
        streams=(
            load.Stream(
                name="load",
                ethernet=load.Ethernet(destination="02:00:00:00:00:01", tags=(load.Vlan(id=7),)),
                outer=load.NshOuter(nsh=load.Nsh(spi=1, si=255)),
                source=load.Addresses(first=IPv4Address("10.0.0.1"), count=3),
                target=load.Addresses(first=IPv6Address("fd00::1")),
                source_port=load.Ports(first=1000),
                target_port=load.Ports(first=2000, count=4),
                sizes=load.ImixSize(imix=load.Imix(genome="aA", custom={"A": 100})),
                rate=load.RampRate(ramp=load.Ramp(from_=1, to=2)),
                amount=load.Seconds(seconds=1),
            ),
        )
    ),
)
LOAD = load.LoadConfig(control=PurePosixPath("load.sock"), send=SENT)


@pytest.mark.parametrize(
    ("form", "config"),
    [
        ("gateway-config", GATEWAY),
        ("function-config", FIREWALL),
        ("function-config", SFF),
        ("ipsec-config", IPSEC),
        ("load-config", LOAD),
    ],
)
def test_everything_that_can_be_set_fits_the_schema(form: str, config: Configuration) -> None:
    document = config.model_dump(mode="json")
    valid(form, document)
    assert type(config).model_validate(document) == config


def test_defaults_of_the_daemon_are_left_out() -> None:
    plain = GATEWAY.model_copy(
        update={
            "transport": gateway.QuicTransport(tls=TLS),
            "placement": Placement.FLOW_HASH,
            "classifier": None,
        }
    )
    document = plain.model_dump(mode="json")
    assert set(document["transport"]) == {"kind", "tls"}
    assert {"placement", "switch", "classifier"}.isdisjoint(document)


def test_paths_are_placed_in_a_directory() -> None:
    here = PurePosixPath("/run/lab")
    assert [str(path) for path in GATEWAY.paths()] == [
        *("gw1.sock", "pki/b1.pem", "/etc/b1.key", "pki/ca.pem", "revoked"),
    ]
    placed = GATEWAY.placed(here)
    assert [str(path) for path in placed.paths()] == [
        *("/run/lab/gw1.sock", "/run/lab/pki/b1.pem", "/etc/b1.key"),
        *("/run/lab/pki/ca.pem", "/run/lab/revoked"),
    ]
    assert placed.placed(here) == placed
    assert [str(path) for path in FIREWALL.placed(here).paths()] == [
        *("/run/lab/fw.sock", "/run/lab/fw.rules.json"),
        *("/run/lab/token", "/run/lab/pem", "/run/lab/key"),
    ]


def test_needs_follow_from_what_is_configured() -> None:
    assert GATEWAY.needs() == {"hawserd", "tun", "tproxy"}
    plain = GATEWAY.model_copy(update={"transport": gateway.MptcpTransport()})
    assert plain.needs() == {"hawserd", "tun", "mptcp"}
    assert FIREWALL.needs() == SFF.needs() == {"hawserd", "xdp"}
    assert LOAD.needs() == {"hawserd", "xdp"}
    control = PurePosixPath("ssc.sock")
    assert openflow.ControllerConfig(control=control).needs() == frozenset()


def test_an_old_name_of_a_field_is_accepted_with_a_warning() -> None:
    old = {"kind": "quic", "tls": TLS, "lane": {"II": "tcp"}}
    with pytest.warns(FutureWarning, match=r"configuration field lane was renamed to tcp_proxy"):
        found = gateway.QuicTransport.model_validate(old)
    assert found == gateway.QuicTransport(tls=TLS, tcp_proxy={TrafficType.II: TcpProxyMode.TCP})
    assert "lane" not in found.model_dump(mode="json")
    with pytest.raises(ValidationError, match="lane"):
        gateway.QuicTransport.model_validate({**old, "tcp_proxy": {}})


def test_old_names_of_emulator_and_generator_fields_are_accepted_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="by_us was renamed to extra_delay_us"):
        reordering = wan.Reordering.model_validate({"share": 0.1, "by_us": 7.0})
    assert reordering == wan.Reordering(share=0.1, extra_delay_us=7.0)
    flows = {"name": "s", "flows": 3}
    with pytest.warns(FutureWarning, match="groups was renamed to streams"):
        receive = load.Receive.model_validate({"port": {"interface": "e"}, "groups": [flows]})
    assert receive.streams == (load.StreamFlows(name="s", flows=3),)
