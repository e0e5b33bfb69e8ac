"""Every probe over IPv6, on links that carry both versions.

h1 p ---near--- a r b ---far, 10 Mbit/s--- p h2
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan, network
from hawser.probe import nstat
from hawser.probe.base import Context
from hawser.probe.registry import probe_for
from hawser.spec.measurement import Measurement
from lab.run.probes import RATE, scenario

pytestmark = pytest.mark.root

_CASES: dict[str, tuple[dict[str, Any], str, float]] = {
    "ping": ({"probe": "ping", "count": 5, "interval": "10 ms"}, "rtt", 60_000),
    "mtu": ({"probe": "path-mtu"}, "path_mtu", 1500),
    "tcp": ({"probe": "iperf3", "duration": "1 s", "warmup": "1 s"}, "goodput", RATE),
    "udp": (
        {
            "probe": "iperf3",
            "protocol": "udp",
            "rate": "1 Mbit/s",
            "length": "1000 B",
            "duration": "1 s",
            "warmup": "0 s",
        },
        "goodput",
        1.1,
    ),
    "http": ({"probe": "http", "duration": "1 s", "warmup": "0 s"}, "requests", 2000),
    "load": (
        {
            "probe": "load",
            "rate": "1 Mbit/s",
            "duration": "1 s",
            "sizes": {"fixed": "200 B"},
            "catch_up": "1 s",
        },
        "received",
        1.01,
    ),
}
"""Fields of a measurement, and one of its metrics with a bound that it cannot exceed."""


@pytest.fixture
def lab(deploy: Callable[[NetworkPlan], LocalLab]) -> LocalLab:
    both = scenario()
    topology = both.topology.model_copy(update={"ipv6": True})
    return deploy(network(both.model_copy(update={"topology": topology})))


@pytest.mark.parametrize("name", _CASES)
def test_packets_are_ipv6(lab: LocalLab, tmp_path: Path, name: str) -> None:
    fields, metric, most = _CASES[name]
    given = {"from": "h1", "to": "h2", "family": 6, **fields}
    measurement: Measurement = TypeAdapter(Measurement).validate_python(given)
    before = nstat.counters(lab.nodes["r"], "*ForwDatagrams")
    samples = probe_for(measurement).measure(Context(lab, "m", tmp_path, started=lambda: None))
    passed = nstat.since(before, nstat.counters(lab.nodes["r"], "*ForwDatagrams"))
    (found,) = (s.value for s in samples if s.kind == "summary" and s.metric == metric)
    assert 0 < found <= most
    assert passed["Ip6OutForwDatagrams"] > 0
    assert passed["IpForwDatagrams"] == 0


def test_both_versions_pass_side_by_side(lab: LocalLab) -> None:
    for addresses in (lab.plan.addresses, lab.plan.addresses6):
        lab.nodes["h1"].run(["ping", "-n", "-c", "1", "-W", "5", str(addresses["h2"])], timeout=10)
