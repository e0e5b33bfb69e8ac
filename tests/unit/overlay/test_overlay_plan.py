"""The plan of a lab: examples written out, and what holds of every plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from overlay_text import emitted, text
from spec_files import ROOT, loaded, read
from spec_strategies import files

from documents import Document, parsed, planned, with_
from hawser.overlay.lab import NetworkPlan, network
from hawser.overlay.lab.plan import NodePlan, RoutePlan
from hawser.spec import Scenario, load
from hawser.spec.units import Duration, Rate, Ratio, Size

HERE = Path(__file__).parent


def scenario(name: str, **labels: str) -> Scenario:
    """Give the variant of a shipped workflow with these labels."""
    workflow = load(str(ROOT / "workflows" / f"{name}.yaml"), read)
    return next(v.scenario for v in workflow.variants if labels.items() <= v.labels.items())


def node(plan: NetworkPlan, name: str) -> NodePlan:
    return next(each for each in plan.nodes if each.name == name)


def test_quickstart_is_as_written_down() -> None:
    found = text(network(scenario("quickstart", transport="ipomp")))
    assert found == (HERE / "quickstart.txt").read_text()


def test_a_link_has_the_prefix_that_it_asks_for() -> None:
    """Others keep the numbers that they have without it."""
    chain = "{nodes: [a, b, c], links: {x: {ends: [a.x, b.x]%s}, y: {ends: [b.y, c.y]}}}"
    head = "{hawser: 1, name: n, title: N, measurements: {r: {probe: ping, from: a, to: c}}, "
    given = head + "topology: " + chain % ", prefix: 10.21.5.0/24" + "}"
    plan = network(loaded(given).variants[0].scenario)
    assert {name: str(plan.addresses[name]) for name in ("a", "b.x", "c")} == {
        "a": "10.21.5.1", "b.x": "10.21.5.2", "c": "10.255.0.2",
    }  # fmt: skip
    assert [(str(r.to), str(r.via)) for r in node(plan, "c").routes] == [
        ("10.21.5.0/24", "10.255.0.1")
    ]


def test_links_carry_ipv6_where_that_is_asked_for() -> None:
    chain = "{nodes: [a, b, c], links: {x: {ends: [a.x, b.x]}, y: {ends: [b.y, c.y]}}, ipv6: true}"
    head = "{hawser: 1, name: n, title: N, "
    ping = "measurements: {r: {probe: ping, from: a, to: c, family: 6}}, "
    plan = network(loaded(head + ping + "topology: " + chain + "}").variants[0].scenario)
    assert {name: str(address) for name, address in plan.addresses6.items()} == {
        "a": "fd00:0:0:1::1", "a.x": "fd00:0:0:1::1",
        "b": "fd00:0:0:1::2", "b.x": "fd00:0:0:1::2", "b.y": "fd00:0:0:2::1",
        "c": "fd00:0:0:2::2", "c.y": "fd00:0:0:2::2",
    }  # fmt: skip
    routes = {n.name: [(str(r.to), str(r.via)) for r in n.routes] for n in plan.nodes}
    assert routes["a"] == [
        ("10.255.0.4/30", "10.255.0.2"), ("fd00:0:0:2::/64", "fd00:0:0:1::2"),
    ]  # fmt: skip
    assert {n.sysctl["net.ipv6.conf.all.disable_ipv6"] for n in plan.nodes} == {"0"}


def test_without_ipv6_nodes_have_none() -> None:
    plan = network(scenario("quickstart", transport="ipomp"))
    assert plan.addresses6 == {}
    assert {n.sysctl["net.ipv6.conf.all.disable_ipv6"] for n in plan.nodes} == {"1"}


def test_the_workflow_has_the_ipip_plan() -> None:
    plan = network(scenario("quickstart", transport="ipip-best"))
    config: Any = emitted(plan.daemons[0])
    assert config["transport"] == {"kind": "ipip", "insecure": True}
    assert config["tun"]["mtu"] == 1480
    assert config["peers"][0]["groups"] == [
        {"id": 0, "paths": [{"local": "198.18.0.10", "remote": "198.18.0.26"}]}
    ]
    assert not node(plan, "gw1").mptcp


@pytest.mark.parametrize(("transport", "mtu"), [("quic", 1500), ("ipip", 1360)])
def test_tunnels_over_ipv6(transport: str, mtu: int) -> None:
    """WAN ports have addresses of both versions; paths, routes and classes are those of IPv6."""
    changes = [f"overlay.transport={transport}", "overlay.family=6", "variants=null", "assert=null"]
    path = str(ROOT / "workflows" / "path-mtu.yaml")
    plan = network(load(path, read, changes).variants[0].scenario)
    config: Any = emitted(plan.daemons[0])
    assert config["tun"]["mtu"] == mtu
    assert config["peers"][0]["groups"] == [
        {"id": 0, "paths": [{"local": "fd01::2", "remote": "fd01:0:0:2::2"}]}
    ]
    gateway = node(plan, "gw1")
    assert [str(a) for a in gateway.interfaces[1].addresses] == ["198.18.0.2/29", "fd01::2/64"]
    assert ("::/0", "fd01::1", 101) in {(str(r.to), str(r.via), r.table) for r in gateway.routes}
    assert ("fd01::/64", 6, 101) in {(str(r.source), r.family, r.table) for r in gateway.rules}
    for name in ("gw1", "internet"):
        assert node(plan, name).sysctl["net.ipv6.conf.all.forwarding"] == "1"
    down = next(s for s in plan.shapers if s.name == "port:gw2.a:reverse")
    assert {str(each.source) for each in down.classes} == {"fd01::/64", "fd01:0:0:1::/64"}


def test_quic_paths_join_every_pair_of_ports() -> None:
    plan = network(scenario("mms-table1", scheme="tcp-over-quic"))
    for number, daemon in enumerate(plan.daemons, start=1):
        config: Any = emitted(daemon)
        assert config["transport"]["kind"] == "quic"
        assert config["transport"]["tls"]["certificate"] == f"pki/b{number}.pem"
        (group,) = config["peers"][0]["groups"]
        assert len({(path["local"], path["remote"]) for path in group["paths"]}) == 4
    assert not any(each.mptcp for each in plan.nodes)


def test_traffic_that_opts_in_goes_through_the_tcp_proxy() -> None:
    for scheme, expected in (("tcp-over-quic", None), ("tcp-over-quic-lane", {"II": "tcp"})):
        for daemon in network(scenario("mms-table1", scheme=scheme)).daemons:
            config: Any = emitted(daemon)
            assert config["transport"].get("tcp_proxy") == expected


def test_quic_is_told_what_is_not_its_default() -> None:
    settings: dict[str, dict[str, object]] = {
        "delay": {},
        "unordered": {"resequence": False},
        "whole-headers": {"header_compression": False},
        "cubic": {"congestion": "cubic"},
        "bbr": {"congestion": "bbr"},
    }
    for name, wanted in settings.items():
        for daemon in network(scenario("quic-settings", setting=name)).daemons:
            config: Any = emitted(daemon)
            plain = {"kind", "tls"}
            found = {key: value for key, value in config["transport"].items() if key not in plain}
            assert found == wanted


def test_without_transport_there_is_no_daemon() -> None:
    plan = network(scenario("mms-table1", scheme="end-to-end-mptcp"))
    assert not plan.daemons
    assert [e.flags for e in node(plan, "gw1").mptcp] == [("subflow", "fullmesh")] * 2
    assert [e.flags for e in node(plan, "gw2").mptcp] == [("signal",)] * 2
    assert all("net.mptcp.pm_type" not in each.sysctl for each in plan.nodes), "the kernel's"
    assert not any(each.mptcp for each in network(scenario("mms-table1", scheme="best-path")).nodes)


class TestFiveBranches:
    plan = network(scenario("five-branches"))

    def test_every_pair_has_four_paths_seen_alike_from_both_ends(self) -> None:
        seen: dict[tuple[int, int], set[tuple[str, str]]] = {}
        for daemon in self.plan.daemons:
            config: Any = emitted(daemon)
            for peer in config["peers"]:
                (group,) = peer["groups"]
                paths = {(path["local"], path["remote"]) for path in group["paths"]}
                seen[config["id"], peer["id"]] = paths
        assert set(seen) == {(i, j) for i in range(1, 6) for j in range(1, 6) if i != j}
        for i, j in combinations(range(1, 6), 2):
            assert len(seen[i, j]) == 4
            assert seen[j, i] == {(remote, local) for local, remote in seen[i, j]}

    def test_the_middle_ones_listen_on_addresses_of_their_own(self) -> None:
        ports = {
            f"{n.name}.{i.name}": len(i.addresses)
            for n in self.plan.nodes
            for i in n.interfaces
            if n.role == "gateway" and i.name != "lan"
        }
        assert ports == {
            f"gw{n}.{port}": 2 if n in (2, 3, 4) else 1 for n in range(1, 6) for port in "ab"
        }

    def test_gateways_make_their_subflows_themselves(self) -> None:
        gateways = [each for each in self.plan.nodes if each.role == "gateway"]
        assert all(each.sysctl["net.mptcp.pm_type"] == "1" for each in gateways)
        assert not any(each.mptcp for each in self.plan.nodes)

    def test_classes_take_both_addresses_of_a_port(self) -> None:
        shaper = next(s for s in self.plan.shapers if s.name == "port:gw1.a:reverse")
        sources = {each.name: each.source for each in shaper.classes}
        assert len(sources) == 8
        second_ports = node(self.plan, "gw3").interfaces[1].addresses
        assert all(a.ip in sources["path:gw1.a-gw3.a:reverse"] for a in second_ports)  # type: ignore[operator]


def test_path_groups_are_numbered_in_their_order() -> None:
    more = (
        "overlay.path_groups={second: {paths: [b2.b>b1.b]}, first: {paths: [b1.a>b2.b, b2.a>b1.a]}}"
    )
    path = str(ROOT / "workflows" / "quickstart.yaml")
    workflow = load(path, read, ["variants=null", "assert=null", "overlay.transport=ipip", more])
    config: Any = emitted(network(workflow.variants[0].scenario).daemons[0])
    groups = config["peers"][0]["groups"]
    assert [group["id"] for group in groups] == [0, 1]
    assert groups[0]["paths"] == [{"local": "198.18.0.10", "remote": "198.18.0.26"}]
    assert groups[1]["paths"][1] == {"local": "198.18.0.2", "remote": "198.18.0.18"}


ROUTERS = """
hawser: 1
name: routers
title: A line of routers and a way round it
topology:
  nodes: [a, r1, r2, r3, b, alone]
  links:
    l1: {ends: [a.x, r1.a]}
    l2: {ends: [r1.b, r2.a]}
    l3: {ends: [r2.b, r3.a], rate: 5 Mbit/s, delay: 3 ms, reverse: {rate: 1 Mbit/s, queue: 9 kB}}
    l4: {ends: [r3.b, b.x]}
    l5: {ends: [r1.c, r3.c], mtu: 9000}
measurements: {rtt: {probe: ping, from: a, to: b}}
"""


class TestLinks:
    plan = network(loaded(ROUTERS).variants[0].scenario)

    def test_addresses(self) -> None:
        assert str(self.plan.addresses["a"]) == "10.255.0.1"
        assert str(self.plan.addresses["r3.c"]) == "10.255.0.18"
        assert "alone" not in self.plan.addresses

    def test_the_shortest_way(self) -> None:
        ways = {str(r.to): (str(r.via), r.interface) for r in node(self.plan, "r1").routes}
        assert ways == {
            "10.255.0.8/30": ("10.255.0.6", "b"),
            "10.255.0.12/30": ("10.255.0.18", "c"),
        }

    def test_shapers_only_where_asked(self) -> None:
        first, second = self.plan.shapers
        assert (first.node, first.interface, first.name) == ("r2", "b", "link:l3:forward")
        assert (first.rate, first.classes[0].delay) == (Rate(5e6), Duration(0.003))
        assert (second.rate, second.classes[0].delay) == (Rate(1e6), Duration(0.003))
        assert (first.classes[0].queue, second.classes[0].queue) == (Size(75_700), Size(9000))

    def test_offload_and_mtu(self) -> None:
        found = {f"{n.name}.{i.name}": i for n in self.plan.nodes for i in n.interfaces}
        assert {port for port, i in found.items() if not i.offload} == {"r2.b", "r3.a"}
        assert {port for port, i in found.items() if i.mtu == 9000} == {"r1.c", "r3.c"}

    def test_only_who_has_two_ports_forwards(self) -> None:
        on = {n.name for n in self.plan.nodes if n.sysctl.get("net.ipv4.ip_forward") == "1"}
        assert on == {"r1", "r2", "r3"}


INTERNET = parsed("""
hawser: 1
name: ports
title: Ports and paths
topology:
  nodes: {a: {sysctl: {net.ipv4.tcp_no_metrics_save: 0}}, b: , c: }
  internet:
    mtu: 1400
    ports: {a.w: {}, b.w: {}, c.w: {}}
measurements: {rtt: {probe: ping, from: a, to: b}}
""")


def internet(
    port: Document | None = None, path: Document | None = None, events: Sequence[Document] = ()
) -> NetworkPlan:
    """The plan where port `a.w`, and every path, are like this."""
    ports = INTERNET["topology"]["internet"]["ports"] | {"a.w": port or {}}
    document = with_(INTERNET, "topology.internet.ports", ports)
    document = with_(document, "topology.internet.path", path or {})
    return planned(with_(document, "events", list(events)))


class TestInternet:
    def test_nothing_asked_nothing_shaped(self) -> None:
        plan = internet()
        assert not plan.shapers
        assert all(i.offload and i.mtu == 1400 for n in plan.nodes for i in n.interfaces)
        assert plan.addresses["a"] == plan.addresses["a.w"]

    def test_own_settings_win(self) -> None:
        assert node(internet(), "a").sysctl["net.ipv4.tcp_no_metrics_save"] == "0"

    def test_a_port_and_a_path_in_series(self) -> None:
        plan = internet(
            {
                "delay": "3 ms",
                "jitter": "3 ms",
                "loss": "50 %",
                "rate": "9 Mbit/s",
                "queue": "7 kB",
                "reverse": {"rate": "2 Mbit/s"},
            },
            {"delay": "4 ms", "jitter": "4 ms", "loss": "50 %"},
        )
        names = [shaper.name for shaper in plan.shapers]
        assert names == [
            "port:a.w:forward",
            *("port:a.w:reverse", "port:b.w:reverse", "port:c.w:reverse"),
        ]
        up, down, other = plan.shapers[0].classes[0], *plan.shapers[1].classes
        assert (up.delay, up.rate, up.queue) == (Duration(0.003), Rate(9e6), Size(7000))
        assert plan.shapers[1].rate == Rate(2e6)
        assert down.name == "path:a.w-b.w:reverse"
        assert other.name == "path:a.w-c.w:reverse"
        assert (down.delay, down.jitter) == (Duration(0.007), Duration(0.005))
        assert (down.loss, down.rate, down.queue) == (Ratio(0.75), None, Size(7000))
        assert plan.shapers[2].classes[0].queue is None

    def test_an_event_needs_something_to_change(self) -> None:
        event = {"at": "1 s", "element": "port:b.w", "change": {"up": False}}
        names = [shaper.name for shaper in internet(events=[event]).shapers]
        assert names == ["port:b.w:forward", "port:b.w:reverse"]


PLANS = files().map(lambda file: network(loaded(json.dumps(file)).variants[0].scenario))


@given(PLANS)
@settings(max_examples=50)
def test_addresses_are_unique(plan: NetworkPlan) -> None:
    addresses = [a.ip for n in plan.nodes for i in n.interfaces for a in i.addresses]
    assert len(addresses) == len(set(addresses))
    assert set(plan.addresses.values()) <= set(addresses)


@given(PLANS)
@settings(max_examples=50)
def test_next_hops_are_on_the_link(plan: NetworkPlan) -> None:
    for each in plan.nodes:
        on_link = {i.name: {a.network for a in i.addresses} for i in each.interfaces}
        own = {a.ip for i in each.interfaces for a in i.addresses}
        for route in each.routes:
            assert route.via is not None
            assert any(route.via in network for network in on_link[route.interface])
            assert route.source is None or route.source in own
        assert {rule.table for rule in each.rules} == {r.table for r in each.routes if r.table}


@given(PLANS)
@settings(max_examples=50)
def test_every_interface_has_one_cable(plan: NetworkPlan) -> None:
    ends = [end for link in plan.links for end in link.ends]
    ports = [(n.name, i.name) for n in plan.nodes for i in n.interfaces]
    assert sorted(ends) == sorted(ports)
    assert all(len(name) <= 15 for _, name in ports)


@given(PLANS)
@settings(max_examples=50)
def test_classes_tell_packets_apart(plan: NetworkPlan) -> None:
    names = [each.name for shaper in plan.shapers for each in shaper.classes]
    assert len(names) == len(set(names))
    ports = {(n.name, i.name) for n in plan.nodes for i in n.interfaces}
    for shaper in plan.shapers:
        assert (shaper.node, shaper.interface) in ports
        sources = [each.source for each in shaper.classes]
        assert len(sources) <= len(ports)
        for first, second in combinations(sources, 2):
            assert first is not None
            assert second is not None
            assert not first.overlaps(second)


@given(PLANS)
@settings(max_examples=30)
def test_routes_lead_there(plan: NetworkPlan) -> None:
    """Follow the routes from every node to every private address of its own site."""
    for target in (a for n in plan.nodes for i in n.interfaces for a in i.addresses):
        if target.ip in IPv4Network("198.18.0.0/15"):
            continue
        for start in plan.nodes:
            way = list(_way(plan, start, target.ip))
            assert len(way) <= len(plan.nodes), "a loop"
            assert way[-1] in ("internet", _owner(plan, target.ip))
            if any(target in i.addresses[0].network for i in start.interfaces):
                assert way[-1] == _owner(plan, target.ip)


@given(PLANS)
@settings(max_examples=20)
def test_a_plan_stays_what_it_is_as_json(plan: NetworkPlan) -> None:
    assert NetworkPlan.model_validate_json(plan.model_dump_json()) == plan


def test_the_same_scenario_has_the_same_plan() -> None:
    first, second = (network(scenario("five-branches")).model_dump_json() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ["quickstart", "mms-table1", "link-down", "five-branches"])
def test_shipped_workflows_have_a_plan(name: str) -> None:
    for variant in load(str(ROOT / "workflows" / f"{name}.yaml"), read).variants:
        assert network(variant.scenario).nodes[-1].role == "internet"


def _way(plan: NetworkPlan, start: NodePlan, target: IPv4Address) -> Iterator[str]:
    here = start
    for _ in range(len(plan.nodes) + 1):
        yield here.name
        route = _lookup(here, target)
        if route is None:
            return
        here = node(plan, _owner(plan, route.via or target))


def _lookup(here: NodePlan, target: IPv4Address) -> RoutePlan | None:
    """Longest prefix match in the main table; None for an address of the node, or no route."""
    if any(a.ip == target for i in here.interfaces for a in i.addresses):
        return None
    connected = [
        RoutePlan(to=a.network, interface=i.name) for i in here.interfaces for a in i.addresses
    ]
    main = [route for route in here.routes if route.table is None]
    matching = [route for route in (*connected, *main) if target in route.to]
    return max(matching, key=lambda route: route.to.prefixlen, default=None)


def _owner(plan: NetworkPlan, address: IPv4Address) -> str:
    return next(
        n.name for n in plan.nodes for i in n.interfaces for a in i.addresses if a.ip == address
    )
