"""Plans of chains are followed packet by packet, as kernel and programs do: functions in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from overlay_text import emitted
from pydantic_core import to_jsonable_python
from spec_files import loaded, mistakes

from documents import Document, parsed, planned, with_
from hawser.overlay.lab import NetworkPlan, network
from hawser.overlay.lab.plan import NodePlan, RoutePlan, ServicePathPlan
from hawser.spec.chain import Encapsulation, FunctionSegment, LastSegment, Proxy
from hawser.spec.units import Duration

Drawn = dict[str, Any]


@st.composite
def files(draw: st.DrawFn, steering: str) -> Drawn:
    """A tree of nodes with a client and a server at any two of them, and functions anywhere."""
    count = draw(st.integers(1, 6))
    nodes = [f"n{number}" for number in range(count)]
    links = {}
    for number in range(1, count):
        up = draw(st.integers(0, number - 1))
        rate = {"rate": "1 Gbit/s"} if draw(st.booleans()) else {}
        links[f"l{number}"] = {"ends": [f"n{number}.up", f"n{up}.d{number}"], "mtu": 1700, **rate}
    for end in ("client", "server"):
        links[end] = {"ends": [f"{end}.eth", f"{draw(st.sampled_from(nodes))}.{end}"]}
    length = draw(st.integers(1, 6))
    functions = {
        f"f{number}": {
            "kind": "forwarder",
            "node": draw(st.sampled_from(nodes)),
            "instances": draw(st.integers(1, 3)) if steering == "nsh" else 1,
            **_proxy(draw(st.sampled_from([None, *Proxy])) if steering == "srv6" else None),
        }
        for number in range(length)
    }
    chain = {"from": "client", "to": "server", "functions": draw(st.permutations(list(functions)))}
    if steering == "srv6":
        chain["srv6"] = {
            "function": draw(st.sampled_from([*FunctionSegment])),
            "last": draw(st.sampled_from([*LastSegment])),
        }
    return {
        "hawser": 1,
        "name": "random",
        "title": "Random",
        "topology": {"nodes": [*nodes, "client", "server"], "links": links},
        "functions": functions,
        "chains": {"c": {**chain, "steering": steering}},
        "measurements": {"rtt": {"probe": "ping", "from": "client", "to": "server"}},
    }


def _proxy(kind: Proxy | None) -> Drawn:
    return {"proxy": str(kind), "kind": "router"} if kind else {}


@dataclass
class Follower:
    """Goes where a packet goes."""

    plan: NetworkPlan

    def __post_init__(self) -> None:
        self.nodes = {node.name: node for node in self.plan.nodes}
        self.peer = {a: b for link in self.plan.links for a, b in (link.ends, link.ends[::-1])}
        self.at: dict[object, str] = {
            address.ip: node.name
            for node in self.plan.nodes
            for interface in node.interfaces
            for address in interface.addresses
        }
        self.function = {
            each: name for name, every in self.plan.instances.items() for each in every
        }
        self.configs: Mapping[str, Any] = {d.node: emitted(d) for d in self.plan.daemons}

    def mac(self, end: tuple[str, str]) -> str | None:
        return next(i.mac for i in self.nodes[end[0]].interfaces if i.name == end[1])

    def first(self, source: str, target: IPv4Address) -> tuple[str, str]:
        """The interface at which a host's packet comes to its neighbour."""
        route = lookup(self.nodes[source], target, None)
        return self.peer[source, route.interface]

    def plain(self, node: str, incoming: str, target: IPv4Address) -> Iterator[str]:
        """Nodes that a packet passes by routes alone, until it is there."""
        table = None
        for _ in range(100):
            if self.at[target] == node:
                return
            route = lookup(self.nodes[node], target, incoming, table)
            table = None
            if route.segments:
                for here in self.segments(node, route.segments):
                    yield here
                    node = here
                incoming = ""
                (end,) = (s for s in self.nodes[node].segments if s.segment == route.segments[-1])
                table = end.table
                assert (end.interface, table) in {
                    (vrf.name, vrf.table) for vrf in self.nodes[node].vrfs
                } or end.behaviour == "End.DX4"
            else:
                node, incoming = self.peer[node, route.interface]
                yield node
        pytest.fail("it loops")

    def segments(self, node: str, segments: tuple[IPv6Address, ...]) -> Iterator[str]:
        for place, segment in enumerate(segments):
            for _ in range(100):
                own = [each for each in self.nodes[node].segments if each.segment == segment]
                if own and own[0].via:
                    node = self.peer[node, own[0].interface][0]
                    assert self.at[own[0].via] == node
                    assert not self.nodes[node].segments, "it knows of none"
                    yield node
                if own:
                    break
                if proxy := self.proxy(node, segment):
                    yield self.proxied(node, proxy, segments[place + 1 :])
                    node = self.peer[node, "f0"][0]
                    yield node
                    break
                route = lookup6(self.nodes[node], segment)
                assert self.at[route.via] == self.peer[node, route.interface][0]
                node = self.peer[node, route.interface][0]
                yield node

    def proxy(self, node: str, segment: IPv6Address) -> Drawn | None:
        proxies = self.configs.get(node, {}).get("proxies", ())
        return next((each for each in proxies if each["segment"] == str(segment)), None)

    def proxied(self, node: str, proxy: Drawn, onward: tuple[IPv6Address, ...]) -> str:
        """The function behind a proxy, which gives packets back where the proxy waits for them."""
        ports = {port["name"]: port["interface"] for port in self.configs[node]["ports"]}
        function = self.peer[node, ports[proxy["function"]["port"]]]
        assert self.mac(function) == proxy["function"]["mac"]
        table = next(r.table for r in self.nodes[function[0]].rules if r.incoming == function[1])
        for route in self.nodes[function[0]].routes:
            if route.table == table:
                back = self.peer[function[0], route.interface]
                assert back == (node, ports[proxy["returns"]])
                assert self.at[route.via] == node
        assert self.mac(self.peer[node, ports["net"]]) == proxy["onward"]["mac"]
        if proxy["behaviour"] == "static":
            assert proxy["encapsulation"]["segments"] == [str(each) for each in onward]
        return function[0]

    def steered(self, node: str, incoming: str, target: IPv4Address) -> Iterator[str]:
        """Functions that a packet passes by service headers; then it goes the plain way."""
        config = self.configs[node]
        ports = {port["name"]: port for port in config["ports"]}
        rule = next(
            rule
            for rule in config["rules"]
            if ports[rule["port"]]["interface"] == incoming
            and target in IPv4Network(rule["destination"])
        )
        spi, si = rule["spi"], rule["si"]
        for _ in range(100):
            config = self.configs[node]
            ports = {port["name"]: port for port in config["ports"]}
            (hop,) = (h for h in config["hops"] if (h["spi"], h["si"]) == (spi, si))
            if end := hop.get("end"):
                away = self.peer[node, ports[end["port"]]["interface"]]
                assert self.mac(away) == end["mac"]
                yield from self.plain(*away, target)
                return
            to = hop["to"][0]
            away = self.peer[node, ports[to["port"]]["interface"]]
            assert self.mac(away) == to["mac"]
            assert ports[to["port"]].get("trusted", False) != ("proxy" in ports[to["port"]])
            if tunnel := to.get("vxlan_gpe"):
                remote = IPv4Address(tunnel["remote"])
                source = ports[to["port"]]["address"]
                *_, node = [away[0], *self.plain(*away, remote)]
                self.accepts(node, source, str(remote))
            else:
                assert {self.function[t["port"]] for t in hop["to"]} == {self.function[away[0]]}
                assert len(hop["to"]) == len(self.plan.instances[self.function[away[0]]])
                yield away[0]
                si -= 1
        pytest.fail("it loops")

    def accepts(self, node: str, source: str, remote: str) -> None:
        """Check that a forwarder takes packets in VXLAN-GPE from another one."""
        config = self.configs[node]
        (port,) = (each for each in config["ports"] if each.get("address") == remote)
        assert port["trusted"]
        assert source in config["forwarders"]

    def functions(self, passed: Iterator[str]) -> list[str]:
        """Functions among what was passed, those that it returned through left out."""
        return [self.function[node] for node in passed if node in self.function]


def lookup(
    node: NodePlan, target: IPv4Address, incoming: str | None, table: int | None = None
) -> RoutePlan:
    """The kernel's choice: rules in their order, then the longest prefix of the main table."""
    tables = (
        [table]
        if table
        else [
            rule.table
            for rule in node.rules
            if rule.incoming == incoming and rule.to is not None and target in rule.to
        ]
    )
    for table in (*tables, None):
        found = [
            route
            for route in node.routes
            if route.table == table and isinstance(route.to, IPv4Network) and target in route.to
        ]
        connected = [
            RoutePlan(to=address.network, interface=interface.name)
            for interface in node.interfaces
            for address in interface.addresses
            if table is None and address.version == 4 and target in address.network
        ]
        if found or connected:
            return max([*found, *connected], key=lambda route: route.to.prefixlen)
    raise AssertionError(f"{node.name} has no route to {target}")


def lookup6(node: NodePlan, target: IPv6Address) -> RoutePlan:
    six = (r for r in node.routes if isinstance(r.to, IPv6Network) and r.table is None)
    found = [r for r in six if target in r.to]
    return max(found, key=lambda route: route.to.prefixlen)


def passed(plan: NetworkPlan, sfp: ServicePathPlan, steering: str) -> list[str]:
    follower = Follower(plan)
    target = plan.addresses[sfp.way[-1]]
    node, incoming = follower.first(sfp.way[0], target)
    if steering == "nsh":
        return follower.functions(follower.steered(node, incoming, target))
    return follower.functions(follower.plain(node, incoming, target))


@pytest.mark.parametrize("steering", ["nsh", "srv6", "routes"])
@settings(max_examples=40)
@given(data=st.data())
def test_packets_pass_functions_in_their_order(steering: str, data: st.DataObject) -> None:

    text = json.dumps(data.draw(files(steering)))
    wrong = mistakes(text)
    assume(not any("would loop" in each for each in wrong))
    assert not wrong
    plan = network(loaded(text).variants[0].scenario)
    (chain,) = plan.chains
    for sfp in chain.service_paths:
        assert passed(plan, sfp, steering) == list(sfp.functions)
    names = [a.ip for n in plan.nodes for i in n.interfaces for a in i.addresses]
    assert len(set(names)) == len(names)


SLEEPER = {"kind": "proxy", "node": "n2", "command": ["sleep", "infinity"]}
TWO = parsed("""\
hawser: 1
name: two
title: Two nodes
topology:
  nodes: [client, n1, n2, server]
  links:
    in: {ends: [client.eth, n1.in]}
    between: {ends: [n1.far, n2.near], rate: 1 Gbit/s, delay: 5 ms}
    out: {ends: [n1.out, server.eth]}
functions:
  f1: {kind: forwarder, node: n2, cpu: 0.5}
  fw:
    kind: firewall
    node: n2
    instances: 2
    stateful: true
    otherwise: deny
    rules: [{source: 10.0.0.0/8, protocol: tcp, destination_ports: [80, 81], action: allow}]
  idle: {kind: forwarder, node: n2}
chains:
  web:
    from: client
    to: server
    functions: [f1, fw]
    match: {protocol: tcp, destination_ports: [80, 80]}
measurements: {rtt: {probe: ping, from: client, to: server}}
""")


def two(document: Document = TWO, **chain: object) -> NetworkPlan:
    """The plan of two nodes whose chain is like this besides."""
    for name, value in chain.items():
        document = with_(document, f"chains.web.{name}", value)
    return planned(document)


def behind_proxy(proxy: str) -> Document:
    """The document of two nodes with f1 behind a proxy."""
    return with_(TWO, "functions.f1", {"kind": "forwarder", "node": "n2", "proxy": proxy})


class TestTwoNodes:
    plan = planned(TWO)
    configs: Mapping[str, Any] = {daemon.name: emitted(daemon) for daemon in plan.daemons}

    def test_functions_in_use_are_nodes(self) -> None:
        found = {node.name: node.cpu for node in self.plan.nodes if node.role == "function"}
        assert found == {"f1": 0.5, "fw-1": None, "fw-2": None}
        assert self.plan.instances == {"f1": ("f1",), "fw": ("fw-1", "fw-2")}

    def test_a_firewall_begins_with_its_rules(self) -> None:
        daemon = next(each for each in self.plan.daemons if each.name == "fw-2")
        firewall: Any = emitted(daemon)["firewall"]
        assert firewall["otherwise"] == "deny"
        assert firewall["remember"]
        files = {name: to_jsonable_python(rules) for name, rules in daemon.files.items()}
        assert files == {
            firewall["rules_file"]: {
                "rules": [
                    {
                        "source": "10.0.0.0/8",
                        "protocol": 6,
                        "destination_ports": [80, 81],
                        "action": "allow",
                    }
                ]
            }
        }

    def test_what_is_shaped_is_left_to_the_kernel(self) -> None:
        queued = {p["name"]: p.get("queued", False) for p in self.configs["n1"]["ports"]}
        assert queued == {"n1.in": False, "n1.far": True, "n1.out": False}
        ports = {f"{n.name}.{i.name}": i for n in self.plan.nodes for i in n.interfaces}
        assert {name for name, port in ports.items() if port.gro} == {
            *("client.eth", "n1.in", "n1.out", "server.eth")
        }
        assert not any(port.offload for port in ports.values())
        assert all(shaper.classes[0].delay == Duration(0.005) for shaper in self.plan.shapers)

    def test_hosts_are_not_trusted(self) -> None:
        trusted = {
            port["name"]
            for config in self.configs.values()
            for port in config["ports"]
            if port.get("trusted")
        }
        assert trusted == {"n1.far", "n2.near", "f1", "fw-1", "fw-2", "f0"}
        steered = two(behind_proxy("dynamic"), steering="srv6", functions=["f1"])
        refused = {node.name: node.untrusted for node in steered.nodes if node.untrusted}
        assert refused == {"n1": ("in", "out")}

    def test_answers_are_told_by_their_source_port(self) -> None:
        forward, reverse = self.configs["n1"]["rules"]
        assert (forward["port"], forward["destination_ports"]) == ("n1.in", [80, 80])
        assert (reverse["port"], reverse["source_ports"]) == ("n1.out", [80, 80])
        assert forward["spi"] != reverse["spi"]

    def test_senders_know_the_room(self) -> None:
        (chain,) = self.plan.chains
        assert chain.mtu == 1426
        for end in ("client", "server"):
            node = next(each for each in self.plan.nodes if each.name == end)
            assert [route.mtu for route in node.routes if route.mtu] == [1426]

    def test_its_way_is_told(self) -> None:
        (chain,) = self.plan.chains
        assert [sfp.way for sfp in chain.service_paths] == [
            ("client", "n1", "n2", "f1", "fw", "n1", "server"),
            ("server", "n1", "n2", "fw", "f1", "n1", "client"),
        ]


def test_segments_are_as_in_the_order() -> None:
    plan = two(functions=["f1", "idle"], steering="srv6")
    assert [[str(s) for s in c.segments] for c in plan.chains[0].service_paths] == [
        ["5f00:0:3:1::1", "5f00:0:3:2::1", "5f00:0:3::1"],
        ["5f00:0:3:2::1", "5f00:0:3:1::1", "5f00:0:3::2"],
    ]
    n2 = next(node for node in plan.nodes if node.name == "n2")
    assert [segment.behaviour for segment in n2.segments] == ["End.DX4", "End.DX4"]
    assert n2.sysctl["net.ipv6.conf.all.forwarding"] == "1"
    assert plan.chains[0].mtu == 1500 - 40 - 8 - 3 * 16


def test_a_reduced_list_leaves_more_room() -> None:
    plan = two(functions=["f1", "idle"], steering="srv6", srv6={"mode": "encap.red"})
    routes = [route for node in plan.nodes for route in node.routes if route.segments]
    assert routes
    assert all(route.mode is Encapsulation.REDUCED for route in routes)
    assert plan.chains[0].mtu == 1500 - 40 - 8 - 2 * 16


@pytest.mark.parametrize(
    ("last", "behaviours", "lists"),
    [
        ("End.DX", ["End.DX4", "End.DX6"], ["5f00:0:3::1", "5f00:0:3::6:1"]),
        ("End.DT", ["End.DT4", "End.DT6"], ["5f00:0:3::1", "5f00:0:3::6:1"]),
        ("End.DT46", ["End.DT46"], ["5f00:0:3::1", "5f00:0:3::1"]),
    ],
)
def test_headers_come_off_as_asked(last: str, behaviours: list[str], lists: list[str]) -> None:
    how = {"ipv6": True, "last": last, "function": "End.X"}
    plan = two(functions=["f1", "idle"], steering="srv6", srv6=how)
    nodes = {node.name: node for node in plan.nodes}
    led = [r for r in nodes["n1"].routes if r.segments and str(r.segments[0])[-1] == "3"]
    assert sorted({str(r.segments[-1]) for r in led if r.segments[-1] in _ends(1)}) == sorted(
        set(lists)
    )
    n2 = nodes["n2"]
    mine = [each for each in n2.segments if each.segment in _ends(1)]
    assert [each.behaviour for each in mine] == behaviours
    cross = [each for each in n2.segments if each.behaviour == "End.X"]
    assert {str(each.segment) for each in cross} == {"5f00:0:3:1::3", "5f00:0:3:2::3"}
    if last == "End.DX":
        assert not n2.vrfs
        return
    vrf = n2.vrfs[0]
    assert all((each.interface, each.table) == (vrf.name, vrf.table) for each in mine)
    onward = [route for route in n2.routes if route.table == vrf.table]
    assert [(route.to.version, route.interface) for route in onward] == [(4, "near"), (6, "near")]


def _ends(sfp: int) -> set[IPv6Address]:
    return {IPv6Address(f"5f00:0:3::{sfp}"), IPv6Address(f"5f00:0:3::6:{sfp}")}


def test_ipv6_leaves_by_a_segment_of_its_own() -> None:
    document = behind_proxy("static")
    plan = two(document, functions=["f1", "idle"], steering="srv6", srv6={"ipv6": True})
    nodes = {node.name: node for node in plan.nodes}
    ends = {name: nodes[name].interfaces[0].addresses[1].ip for name in ("client", "server")}
    rules = [rule for rule in nodes["n1"].rules if rule.family == 6]
    assert [rule.to and rule.to.network_address for rule in rules] == [*ends.values()][::-1]
    led = [r for r in nodes["n1"].routes if r.segments and isinstance(r.to, IPv6Network)]
    assert [str(route.segments[-1]) for route in led] == ["5f00:0:3::6:1", "5f00:0:3::6:2"]
    assert [rule.table for rule in rules] == [route.table for route in led]
    behaviours = {str(each.segment): each.behaviour for each in nodes["n2"].segments}
    assert behaviours["5f00:0:3::6:1"] == "End.DX6"
    proxies: Any = next(emitted(d)["proxies"] for d in plan.daemons if d.name == "f1-proxy")
    assert [each["encapsulation"]["segments_ipv6"] for each in proxies] == [
        ["5f00:0:3:2::1", "5f00:0:3::6:1"],
        ["5f00:0:3::6:2"],
    ]


@pytest.mark.parametrize(("steering", "proxy"), [("srv6", "static"), ("routes", None)])
@pytest.mark.parametrize("fail", ["open", "closed"])
def test_a_classifier_keeps_all_rules_of_its_node(
    steering: str, proxy: str | None, fail: str
) -> None:
    program = {**SLEEPER, "proxy": proxy} if proxy else SLEEPER
    document = with_(behind_proxy(proxy) if proxy else TWO, "functions.idle", program)
    plan = two(document, functions=["f1", "idle"], steering=steering, fail=fail)
    found = {each.node: each for each in plan.daemons if each.role == "classifier"}
    led = {node.name: node.rules for node in plan.nodes if node.name in {"n1", "n2"} and node.rules}
    assert found.keys() == led.keys() == ({"n1"} if proxy else {"n1", "n2"})
    for name, daemon in found.items():
        config: Any = emitted(daemon)
        kept = [rule for path in config["service_paths"] for rule in path["rules"]]
        assert [rule["priority"] for rule in kept] == [1000 + at for at in range(len(led[name]))]
        assert [rule["table"] for rule in kept] == [rule.table for rule in led[name]]
        assert {path.get("fail", "closed") for path in config["service_paths"]} == {fail}
        process = {"process": {"pid_file": "daemons/idle.pid"}}
        checks = {"idle": [process]}
        if proxy:
            sockets = {n: {"control": {"socket": f"{n}-proxy.sock"}} for n in ("f1", "idle")}
            checks = {"f1": [sockets["f1"]], "idle": [process, sockets["idle"]]}
        assert checked(config) == checks


def test_what_is_the_kernels_alone_has_no_classifier() -> None:
    plan = two(functions=["f1", "idle"], steering="routes")
    assert not [daemon for daemon in plan.daemons if daemon.role == "classifier"]


def checked(config: Any) -> dict[str, list[Any]]:  # noqa: ANN401 (JSON)
    """How the health of each instance is checked."""
    instances = [each for function in config["functions"] for each in function["instances"]]
    return {each["name"]: [check["by"] for check in each["checks"]] for each in instances}


class TestHealth:
    @staticmethod
    def configs(fail: str) -> tuple[Any, Any]:
        found = {daemon.name: emitted(daemon) for daemon in two(fail=fail).daemons}
        return found["n1"], found["n2"]

    @pytest.mark.parametrize("fail", ["open", "closed"])
    def test_a_forwarder_checks_all_instances_at_its_node(self, fail: str) -> None:
        _, n2 = self.configs(fail)
        assert checked(n2) == {
            name: [{"control": {"socket": f"{name}.sock"}}] for name in ("f1", "fw-1", "fw-2")
        }
        (hop,) = (hop for hop in n2["hops"] if (hop["spi"], hop["si"]) == (1, 254))
        assert [target["instance"] for target in hop["to"]] == ["fw-1", "fw-2"]
        assert "service_paths" not in n2

    def test_who_puts_packets_on_a_path_that_fails_open_checks_all_of_it(self) -> None:
        n1, _ = self.configs("open")
        assert checked(n1).keys() == {"f1", "fw-1", "fw-2"}
        assert n1["service_paths"] == [
            {"spi": 1, "fail": "open", "functions": ["f1", "fw"]},
            {"spi": 2, "fail": "open", "functions": ["fw", "f1"]},
        ]
        assert {rule["spi"] for rule in n1["rules"]} == {1, 2}

    def test_who_has_no_function_of_a_path_that_fails_closed_checks_nothing(self) -> None:
        n1, _ = self.configs("closed")
        assert "functions" not in n1
        assert "service_paths" not in n1
