"""Every probe once over real packets.

 h1             r                     h2
+---+          +-------+             +---+
| p |---near---| a   b |----far------| p |        far: 10 Mbit/s
+---+          +-------+             +---+
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan, network
from hawser.probe import environment, nstat
from hawser.probe.base import ProbeError
from hawser.probe.port import free_port, listening
from hawser.spec.topology import Node
from hawser.spec.workflow import Change
from lab.run.probes import RATE, iperf3, measured, ping, plan, scenario
from lab.traffic.counted import limit
from lab.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def lab(deploy: Callable[[NetworkPlan], LocalLab]) -> LocalLab:
    return deploy(plan())


def reported(raw: Path) -> dict[str, Any]:
    """The report of iperf3's client."""
    found: dict[str, Any] = json.loads((raw / "m.iperf3.json").read_text())
    return found


def test_ping(lab: LocalLab, tmp_path: Path) -> None:
    found = measured(lab, tmp_path, ping())
    assert found["ping_loss"] == 0
    assert 0 < found["rtt_min"] <= found["rtt"] <= found["rtt_p99"]
    assert "icmp_seq=6" in (tmp_path / "m.ping.txt").read_text()


def test_tcp_forward_and_reverse(lab: LocalLab, tmp_path: Path) -> None:
    for reverse, node in ((False, "r"), (True, "h2")):
        passed = limit(lab.nodes[node], f"link:far:{'reverse' if reverse else 'forward'}")
        found = measured(lab, tmp_path, iperf3(reverse=reverse, streams=2, congestion="reno"))
        received = reported(tmp_path)["end"]["sum_received"]
        assert found["goodput"] == pytest.approx(received["bits_per_second"] / 1e6)
        assert found["goodput"] == pytest.approx(
            8e-6 * received["bytes"] / received["seconds"], rel=0.01
        )
        assert found["retransmissions"] >= 0
        assert 0 < received["bytes"] < passed.bytes()
        passed.holds(RATE * 1e6)
    client = reported(tmp_path)
    assert any(each["sum"]["omitted"] for each in client["intervals"]), "the warm-up"
    assert client["end"]["sender_tcp_congestion"] == "reno"
    assert len(client["end"]["streams"]) == 2
    assert (tmp_path / "m.iperf3-server.json").exists()


@pytest.mark.parametrize(("offered", "fits"), [(20, False), (1, True)])
def test_udp_loses_what_does_not_fit(
    lab: LocalLab, tmp_path: Path, offered: int, *, fits: bool
) -> None:
    """Twice the link's rate, and a tenth of it."""
    passed = limit(lab.nodes["r"], "link:far:forward")
    spec = iperf3(protocol="udp", rate=f"{offered} Mbit/s", length="1000 B", warmup="0 s")
    found = measured(lab, tmp_path, spec)
    udp, out = (reported(tmp_path)["end"][f"sum_{which}"] for which in ("received", "sent"))
    sent = max(out["packets"], udp["packets"])
    came = udp["packets"] - udp["lost_packets"]
    assert found["loss"] == pytest.approx(100 * (sent - came) / sent)
    assert found["goodput"] == pytest.approx(8e-6 * udp["bytes"] / udp["seconds"], rel=0.01)
    assert found["jitter"] > 0
    dropped = lab.nodes["r"].counters()["link:far:forward"]["drop_queue"]
    unread = nstat.counters(lab.nodes["h2"], "UdpRcvbufErrors")["UdpRcvbufErrors"]
    assert udp["lost_packets"] <= dropped + unread
    assert fits or udp["lost_packets"] > 0
    assert 0 < udp["bytes"] < passed.bytes()
    passed.holds(RATE * 1e6)


def test_mptcp_from_end_to_end(lab: LocalLab, tmp_path: Path) -> None:
    passed = limit(lab.nodes["r"], "link:far:forward")
    found = measured(lab, tmp_path, iperf3(protocol="mptcp"))
    assert found.keys() == {"goodput"}
    assert found["goodput"] > 0
    assert 0 < reported(tmp_path)["end"]["sum_received"]["bytes"] < passed.bytes()
    passed.holds(RATE * 1e6)


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
        assert found["goodput"] > 0
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
