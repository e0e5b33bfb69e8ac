"""What becomes of delay, jitter and loss in a plan."""

from __future__ import annotations

from typing import Any

import pytest
from spec_files import loaded

from hawser.node.netns.htb import UNLIMITED, leaves
from hawser.overlay.lab import NetworkPlan, network
from hawser.overlay.lab.emulator import (
    configuration,
    configured,
    emulated,
    kernel_suffices,
    unwired,
)
from hawser.overlay.lab.plan import LinkPlan, NodePlan
from hawser.spec.units import Duration, Ratio
from lab.plans.small import gateway_daemon

TEXT = """
hawser: 1
name: wan
title: Wan
topology:
  nodes: {nodes}
  links:
    w: {{ends: [a.e, b.e], {link}}}
  internet:
    ports: {{c.e: {{{port}}}, d.e: {{}}, a.i: {{}}}}
    path: {{{rest}}}
    paths: {{p: {{ends: [c.e, d.e], {path}}}}}
measurements: {{rtt: {{probe: ping, from: a, to: b}}}}
events: {events}
"""
NOTHING = "reverse: {}"


def plan(
    link: str = NOTHING,
    path: str = NOTHING,
    port: str = "",
    rest: str = "",
    nodes: str = "[a, b, c, d]",
    events: str = "[]",
) -> NetworkPlan:
    text = TEXT.format(link=link, path=path, port=port, rest=rest, nodes=nodes, events=events)
    return network(loaded(text).variants[0].scenario)


def config(of: NetworkPlan) -> dict[str, Any]:
    found = configuration(emulated(of))
    assert found is not None
    return found.model_dump(mode="json")


def paths(of: NetworkPlan) -> dict[str, dict[str, Any]]:
    return {path["name"]: path for path in config(of)["paths"]}


def link(of: NetworkPlan, name: str) -> LinkPlan:
    return next(each for each in of.links if each.name == name)


def node(of: NetworkPlan, name: str) -> NodePlan | None:
    return next((each for each in of.nodes if each.name == name), None)


def test_without_impairment_a_plan_stays_as_it_is() -> None:
    bare = plan("rate: 5 Mbit/s")
    assert emulated(bare) == bare
    assert kernel_suffices(bare)


def test_a_link_becomes_two_with_the_emulator_between() -> None:
    made = emulated(plan("delay: 10 ms, rate: 5 Mbit/s"))
    assert link(made, "w").wire == ("w0a", "w0b")
    assert link(made, "c.e").wire is None
    wan = node(made, "wan")
    assert wan is not None
    assert [(port.name, port.addresses, port.offload) for port in wan.interfaces] == [
        ("w0a", (), False),
        ("w0b", (), False),
    ]
    assert not wan.redirects
    shaper = next(each for each in made.shapers if each.name == "link:w:forward")
    assert shaper.classes[0].emulated
    assert emulated(made) == made


def test_only_hosts_behind_the_emulator_take_packets_in_by_threads() -> None:
    bare = plan("delay: 10 ms")
    assert threaded(bare) == set()
    assert threaded(emulated(bare)) == {("a", "e"), ("b", "e")}
    assert threaded(emulated(plan(path="delay: 10 ms"))) == {("c", "e"), ("d", "e")}
    daemon = gateway_daemon("a", "a")
    relayed = bare.model_copy(update={"daemons": (daemon,)})
    assert threaded(emulated(relayed)) == {("b", "e")}


def threaded(of: NetworkPlan) -> set[tuple[str, str]]:
    return {
        (each.name, interface.name)
        for each in of.nodes
        for interface in each.interfaces
        if interface.threaded
    }


def test_the_other_direction_is_the_kernels() -> None:
    made = emulated(plan("reverse: {delay: 10 ms}"))
    wan = node(made, "wan")
    assert wan is not None
    assert wan.redirects == (("w0a", "w0b"),)
    assert config(made)["wires"] == [{"name": "w", "ends": ["w0a", "w0b"], "carries": "reverse"}]


def test_every_value_arrives() -> None:
    found = paths(
        plan(
            "delay: 10 ms, jitter: 2 ms, jitter_distribution: pareto, jitter_correlation: 25 %,"
            "jitter_reorders: true, loss: 1 %, duplication: 2 %, reordering: 3 %,"
            "reordering_delay: 4 ms,"
            "reverse: {loss: null, gilbert_elliott: {to_bad: 1 %, to_good: 20 %}}"
        )
    )
    forward = found["link:w:forward"]
    assert forward == {
        "name": "link:w:forward",
        "wire": "w",
        "direction": "forward",
        "delay_us": 10_000,
        "jitter": {
            "deviation_us": 2000,
            "distribution": "pareto",
            "correlation": 0.25,
            "reorders": True,
        },
        "loss": {"model": "bernoulli", "probability": 0.01},
        "duplication": 0.02,
        "reordering": {"share": 0.03, "extra_delay_us": 4000},
    }
    chain = {"model": "gilbert_elliott", "to_bad": 0.01, "to_good": 0.2, "good": 0, "bad": 1}
    assert found["link:w:reverse"]["loss"] == chain


def test_paths_are_told_apart_by_their_source_where_they_arrive() -> None:
    found = paths(plan(path="delay: 30 ms", rest="delay: 5 ms"))
    forward, reverse = found["path:p:forward"], found["path:p:reverse"]
    assert (forward["wire"], forward["source"]) == ("d.e", "198.18.0.2/31")
    assert (reverse["wire"], reverse["source"]) == ("c.e", "198.18.0.10/31")
    assert found["path:c.e-a.i:forward"]["delay_us"] == 5000


@pytest.mark.parametrize(
    ("port", "emulated_here"),
    [("", True), ("reverse: {rate: 90 Mbit/s}", False)],
    ids=["the path alone limits", "paths share the port's rate"],
)
def test_a_rate_of_the_internet_is_the_emulators(port: str, emulated_here: bool) -> None:
    made = emulated(plan(path="delay: 30 ms, rate: 5 Mbit/s, queue: 9 kB", port=port))
    bottlenecks = {each["name"]: each.get("bottleneck") for each in config(made)["paths"]}
    both = {"rate_bit_per_s": 5_000_000, "queue_bytes": 9000}
    assert bottlenecks["path:p:forward"] == both
    assert bottlenecks["path:p:reverse"] == (both if emulated_here else None)
    assert ceilings(made)["path:p:forward"] == UNLIMITED
    assert ceilings(made)["path:p:reverse"] == (UNLIMITED if emulated_here else 625_000)


def test_a_rate_of_a_link_or_a_port_is_the_kernels() -> None:
    port = "rate: 7 Mbit/s, reverse: {}"
    made = emulated(plan("delay: 1 ms, rate: 5 Mbit/s", "delay: 1 ms", port))
    assert not any("bottleneck" in each for each in config(made)["paths"])
    assert ceilings(made)["link:w:forward"] == 625_000


def ceilings(of: NetworkPlan) -> dict[str, int]:
    """Bytes a second that the kernel lets through, by class."""
    return {leaf.name: leaf.htb.ceil for shaper in of.shapers for leaf in leaves(shaper)}


def test_path_and_port_add_up() -> None:
    port = "reverse: {delay: 2 ms, jitter: 4 ms, loss: 10 %}"
    found = paths(plan(path="delay: 30 ms, jitter: 3 ms, loss: 10 %", port=port))
    reverse = found["path:p:reverse"]
    assert reverse["delay_us"] == 32_000
    assert reverse["jitter"]["deviation_us"] == 5000
    assert reverse["loss"]["probability"] == pytest.approx(0.19)


def test_independent_loss_joins_a_chain() -> None:
    chain = "gilbert_elliott: {to_bad: 1 %, to_good: 50 %, good: 0 %, bad: 50 %}"
    reverse = paths(plan(path=chain, port="reverse: {loss: 10 %}"))["path:p:reverse"]
    assert reverse["loss"]["good"] == pytest.approx(0.1)
    assert reverse["loss"]["bad"] == pytest.approx(0.55)


def test_what_an_event_will_delay_has_the_emulator_from_the_start() -> None:
    events = "[{at: 1 s, element: 'path:p', change: {loss: 1 %}}]"
    made = plan(events=events)
    assert "path:p:forward" in paths(made)
    assert link(emulated(made), "w").wire is None


def test_netem_does_what_it_does_faithfully() -> None:
    assert kernel_suffices(plan("delay: 5 ms, loss: 1 %"))
    assert not kernel_suffices(plan("delay: 5 ms, jitter: 1 ms"))
    assert not kernel_suffices(plan("gilbert_elliott: {to_bad: 1 %, to_good: 1 %}"))


def changed(of: NetworkPlan, where: str, **values: object) -> NetworkPlan:
    """The plan with new values for the classes of shapers whose names begin so."""
    shapers = tuple(
        shaper.model_copy(
            update={"classes": tuple(each.model_copy(update=values) for each in shaper.classes)}
        )
        if shaper.name.startswith(where)
        else shaper
        for shaper in of.shapers
    )
    return of.model_copy(update={"shapers": shapers})


def test_a_change_reaches_the_configuration() -> None:
    after = configured(changed(emulated(plan("delay: 10 ms")), "link:w", loss=Ratio(0.5)))
    assert paths(after)["link:w:forward"]["loss"]["probability"] == 0.5
    assert not list(unwired(after))


def test_what_is_not_wired_is_told() -> None:
    made = emulated(plan("delay: 10 ms", path="rate: 1 Mbit/s"))
    found = set(unwired(changed(made, "", delay=Duration(1))))
    assert {"path:p:forward", "path:p:reverse"} <= found
    assert "link:w:forward" not in found


class TestRegions:
    NODES = "{a: {region: us-west-2}, b: {region: ap-southeast-2}, c: {region: us-east-2}, d: {}}"

    def test_links_and_paths_have_half_the_round_trip(self) -> None:
        found = paths(plan(nodes=self.NODES))
        assert found["link:w:forward"]["delay_us"] == 69_300
        assert found["path:c.e-a.i:forward"]["delay_us"] == 27_100

    def test_explicit_values_win(self) -> None:
        found = paths(plan("delay: 1 ms", rest="delay: 2 ms", nodes=self.NODES))
        assert found["link:w:forward"]["delay_us"] == 1000
        assert found["path:c.e-a.i:forward"]["delay_us"] == 2000

    def test_no_offload_where_a_distance_is(self) -> None:
        made = plan(nodes=self.NODES)
        hosts = [each for each in made.nodes if each.name in "ab"]
        assert not any(port.offload for each in hosts for port in each.interfaces)
