"""Plans of functions that know nothing of chains: proxies, routers, ends of tunnels."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

from overlay_text import emitted

from documents import parsed, planned, with_
from hawser.overlay.lab import NetworkPlan
from hawser.overlay.lab.plan import NodePlan

WORKFLOW = parsed("""\
hawser: 1
name: unaware
title: SFC-unaware functions
topology:
  nodes: [client, a, b, server]
  links:
    in: {ends: [client.eth, a.in]}
    between: {ends: [a.b, b.a]}
    out: {ends: [b.out, server.eth]}
functions:
  f: {kind: forwarder, node: a}
  px: {kind: proxy, node: a, command: [run, "@server@"], files: {conf: "x @client.eth@ @px@ @"}}
  two: {kind: proxy, node: a, instances: 2, setup: [["true"]]}
  rt: {kind: router, node: b, routes: [{to: 10.9.0.0/16, action: drop}, {to: 0.0.0.0/0}]}
  enc: {kind: ipsec, node: a, peer: dec}
  dec: {kind: ipsec, node: b, peer: enc}
measurements:
  rtt: {probe: ping, from: client, to: server}
""")

CLIENT, SERVER, PX = (IPv4Address(a) for a in ("10.255.0.1", "10.255.0.10", "10.253.0.2"))


def chain(*functions: str, **fields: object) -> NetworkPlan:
    """The plan of a chain of these functions."""
    chain = {"from": "client", "to": "server", "functions": list(functions), **fields}
    return planned(with_(WORKFLOW, "chains.c", chain))


def config(plan: NetworkPlan, node: str) -> Any:  # noqa: ANN401 (JSON)
    return next(emitted(daemon) for daemon in plan.daemons if daemon.name == node)


def node(plan: NetworkPlan, name: str) -> NodePlan:
    return next(each for each in plan.nodes if each.name == name)


def test_a_forwarder_is_the_proxy_of_what_is_beside_it() -> None:
    plan = chain("px", "f", "rt")
    assert [d.name for d in plan.daemons if d.role == "forwarder"] == ["f"]
    ports = {port["name"]: port.get("proxy") for port in config(plan, "a")["ports"]}
    assert (ports["px"], ports["f"], ports["a.in"]) == ("flows", None, None)
    hops = {
        (h["spi"], h["si"]): h["to"][0].get("back") for h in config(plan, "a")["hops"] if "to" in h
    }
    assert hops[1, 255] == {"spi": 2, "si": 252}, "px is the last one on the way back"
    assert hops[2, 253] == {"spi": 1, "si": 254}
    assert hops[1, 254] is None
    straight = chain("px", symmetric=False)
    assert "back" not in config(straight, "a")["hops"][0]["to"][0]


def test_programs_get_addresses_for_names() -> None:
    (program,) = chain("px").programs
    assert program.command == ("run", str(SERVER))
    assert program.files == {"conf": f"x {CLIENT} {PX} @"}


def test_answers_to_a_function_are_led_back_where_one_instance_has_them() -> None:
    plan = chain("px", "f")
    rules = config(plan, "b")["rules"]
    assert [rule["destination"] for rule in rules] == [f"{plan.addresses['px']}/32", f"{CLIENT}/32"]
    (rule,) = config(chain("two", "f"), "b")["rules"]
    assert rule["destination"] == f"{CLIENT}/32"


def test_everybody_reaches_a_function_and_it_sends_no_more_than_its_chain_has_room_for() -> None:
    plan = chain("px", "rt")
    (steered,) = plan.chains
    for name in ("client", "b", "server"):
        assert IPv4Network(PX) in [route.to for route in node(plan, name).routes]
    (port,) = node(plan, "px").interfaces
    assert (port.mtu, port.gro, port.offload) == (steered.mtu, True, False)
    assert steered.mtu < 1500
    routes = {str(route.to): route.kind for route in node(plan, "rt").routes}
    assert routes == {"10.9.0.0/16": "blackhole", "0.0.0.0/0": "unicast"}


def test_between_the_ends_of_a_tunnel_no_header_goes() -> None:
    plan = chain("f", "enc", "dec", "rt")
    (steered,) = plan.chains
    assert steered.mtu == 1400
    places = {(hop["spi"], hop["si"]) for name in ("a", "b") for hop in config(plan, name)["hops"]}
    assert (1, 253) not in places, "dec gets nothing by a header"
    assert (2, 253) not in places, "nor does enc on the way back"
    assert {(1, 254), (1, 252), (2, 254), (2, 252)} <= places
    at_dec = [rule for rule in config(plan, "b")["rules"] if rule["port"] == "dec"]
    assert [(r["destination"], r["spi"], r["si"]) for r in at_dec] == [(f"{SERVER}/32", 1, 252)]
    enc = node(plan, "enc")
    (rule,) = enc.rules
    assert (rule.incoming, rule.table) == ("f0", plan.tunnels[0].table)
    assert [r.kind for r in enc.routes if r.table == rule.table] == ["unreachable"]
    assert [(end.node, end.peer) for end in plan.tunnels] == [("enc", "dec"), ("dec", "enc")]


def test_a_tunnel_is_down_when_one_end_is() -> None:
    plan = chain("f", "enc", "dec")
    sockets = [f"tunnels/enc-dec/{end}/control" for end in ("enc", "dec")]
    for name, end in (("a", "enc"), ("b", "dec")):
        functions = config(plan, name)["functions"]
        (instance,) = next(each["instances"] for each in functions if each["name"] == end)
        assert [check["by"]["control"]["socket"] for check in instance["checks"]] == sockets
    targets = [target for hop in config(plan, "a")["hops"] for target in hop.get("to", ())]
    assert {target.get("instance") for target in targets if target["port"] == "enc"} == {"enc"}


def test_routes_lead_answers_to_a_function_as_they_lead_others() -> None:
    plan = chain("px", "enc", "dec", steering="routes")
    rules = [rule for rule in node(plan, "b").rules if rule.to == IPv4Network(PX)]
    assert "out" in {rule.incoming for rule in rules}
    assert not [daemon for daemon in plan.daemons if daemon.role not in {"wan", "classifier"}]
