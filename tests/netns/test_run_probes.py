"""Every probe once over real packets: h1 ---- r --10 Mbit/s-- h2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

from hawser.driver.local import LocalLab
from hawser.overlay import NetworkPlan, network
from hawser.probe import environment
from hawser.probe.base import Context, ProbeError
from hawser.probe.port import free_port, listening
from hawser.probe.registry import probe_for
from hawser.spec.measurement import Iperf3, Measurement, Ping
from hawser.spec.topology import Link, Node, Topology
from hawser.spec.units import Rate
from hawser.spec.workflow import Change, Scenario

pytestmark = pytest.mark.root


def scenario() -> Scenario:
    return Scenario(
        topology=Topology(
            nodes={"h1": Node(), "r": Node(), "h2": Node()},
            links={
                "near": Link(ends=("h1.p", "r.a")),
                "far": Link(ends=("r.b", "h2.p"), rate=Rate(10e6)),
            },
        ),
        measurements={"rtt": Ping.model_validate({"probe": "ping", "from": "h1", "to": "h2"})},
    )


@pytest.fixture
def lab(deploy: Callable[[NetworkPlan], LocalLab]) -> LocalLab:
    return deploy(network(scenario()))


def measured(
    lab: LocalLab, raw: Path, measurement: Measurement, *, disrupted: bool = False
) -> dict[str, float]:
    started: list[bool] = []
    context = Context(lab, "m", raw, lambda: started.append(True), disrupted)
    samples = probe_for(measurement).measure(context)
    assert started == [True]
    direction = {sample.direction for sample in samples}
    assert direction == {_direction(measurement)}
    return {sample.metric: sample.value for sample in samples if sample.kind == "summary"}


def _direction(measurement: Measurement) -> str:
    if isinstance(measurement, Ping):
        return "both"
    return "reverse" if measurement.reverse else "forward"


MOST = 11
"""Mbit/s: the link's 10, and what waited for a retransmission when the warm-up ended."""


def ping(**fields: object) -> Ping:
    return Ping.model_validate(
        {"probe": "ping", "from": "h1", "to": "h2", "count": 5, "interval": "10 ms"} | fields
    )


def iperf3(**fields: object) -> Iperf3:
    given = {"probe": "iperf3", "from": "h1", "to": "h2", "duration": "2 s", "warmup": "1 s"}
    return Iperf3.model_validate(given | fields)


def test_ping(lab: LocalLab, tmp_path: Path) -> None:
    found = measured(lab, tmp_path, ping())
    assert found["ping_loss"] == 0
    assert 0 < found["rtt_min"] <= found["rtt"] <= found["rtt_p99"] < 50
    assert "icmp_seq=6" in (tmp_path / "m.ping.txt").read_text()


def test_tcp_forward_and_reverse(lab: LocalLab, tmp_path: Path) -> None:
    for reverse in (False, True):
        found = measured(lab, tmp_path, iperf3(reverse=reverse, streams=2, congestion="reno"))
        assert 4 < found["goodput"] < MOST
        assert found["retransmissions"] >= 0
    client = json.loads((tmp_path / "m.iperf3.json").read_text())
    assert client["end"]["sender_tcp_congestion"] == "reno"
    assert len(client["end"]["streams"]) == 2
    assert (tmp_path / "m.iperf3-server.json").exists()


@pytest.mark.measures
def test_udp_loses_what_does_not_fit(lab: LocalLab, tmp_path: Path) -> None:
    found = measured(lab, tmp_path, iperf3(protocol="udp", rate="20 Mbit/s", length="1000 B"))
    fits = 10 * 1000 / 1042
    assert found["goodput"] == pytest.approx(fits, rel=0.05)
    assert found["loss"] == pytest.approx(100 * (1 - fits / 20), abs=4)
    assert found["jitter"] > 0


@pytest.mark.measures
def test_udp_within_the_rate_loses_nothing(lab: LocalLab, tmp_path: Path) -> None:
    found = measured(lab, tmp_path, iperf3(protocol="udp", rate="5 Mbit/s", length="500 B"))
    assert found["goodput"] == pytest.approx(5, rel=0.05)
    assert found["loss"] < 1


def test_mptcp_from_end_to_end(lab: LocalLab, tmp_path: Path) -> None:
    found = measured(lab, tmp_path, iperf3(protocol="mptcp"))
    assert found.keys() == {"goodput"}
    assert 4 < found["goodput"] < MOST


def test_a_server_whose_kernel_has_no_mptcp_is_told(
    deploy: Callable[[NetworkPlan], LocalLab], tmp_path: Path
) -> None:
    topology = scenario().topology
    nodes = topology.nodes | {"h2": Node(sysctl={"net.mptcp.enabled": "0"})}
    changed = topology.model_copy(update={"nodes": nodes})
    lab = deploy(network(scenario().model_copy(update={"topology": changed})))
    with pytest.raises(ProbeError, match=r"iperf3 h1 -> h2: .*(not get ready|fell back)"):
        measured(lab, tmp_path, iperf3(protocol="mptcp", duration="1 s", warmup="0 s"))


def test_a_port_that_is_taken_is_passed_over(lab: LocalLab, tmp_path: Path) -> None:
    other = lab.nodes["h2"].start(["iperf3", "-s", "-p", "5201"])
    try:
        until(lambda: 5201 in listening(lab.nodes["h2"]))
        found = measured(lab, tmp_path, iperf3(duration="1 s", warmup="0 s"))
        assert found["goodput"] > 5
        assert free_port(lab.nodes["h2"]) == 5202
    finally:
        other.stop()


def test_a_path_that_is_down_is_an_error_unless_it_was_asked_for(
    lab: LocalLab, tmp_path: Path
) -> None:
    lab.apply("link:far", Change(up=False))
    with pytest.raises(ProbeError, match="none of 2 echoes was answered"):
        measured(lab, tmp_path, ping(count=1))
    assert measured(lab, tmp_path, ping(count=1), disrupted=True) == {"ping_loss": 100.0}


def test_ends_that_are_not_in_the_lab_are_told(lab: LocalLab, tmp_path: Path) -> None:
    lab.plan = lab.plan.model_copy(update={"addresses": {}})
    with pytest.raises(ProbeError, match="'h1' is not in lab"):
        measured(lab, tmp_path, iperf3())


def test_settings_are_those_of_the_node(lab: LocalLab) -> None:
    found = environment.node_settings(lab.nodes["h1"])
    assert found["net.ipv4.tcp_no_metrics_save"] == "1"
    assert len(found["net.ipv4.tcp_rmem"].split()) == 3
