"""What a gateway measures of its paths while traffic fills them tells their bandwidth.

h1 -- gw1 ==a== internet ==a== gw2 -- h2        path p1: 10 Mbit/s, p2: 20 Mbit/s
          ==b==          ==b==
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hawser.driver.local import LocalDriver, LocalLab
from hawser.overlay.lab import network
from hawser.probe.bandwidth.passive import PassiveBandwidthProbe
from hawser.probe.base import Context, ProbeError
from hawser.spec import load
from hawser.spec.measurement import Bandwidth
from hawser.spec.workflow import Scenario
from lab.traffic.nodes import ping
from lab.waiting import until

pytestmark = pytest.mark.root

WORKFLOW = """
hawser: 1
name: passive
title: Two branches over paths of 10 and 20 Mbit/s
topology:
  nodes: [h1, gw1, gw2, h2]
  links:
    lan1: {ends: [h1.lan, gw1.lan]}
    lan2: {ends: [h2.lan, gw2.lan]}
  internet:
    ports: {gw1.a: {}, gw1.b: {}, gw2.a: {}, gw2.b: {}}
    paths:
      p1: {ends: [gw1.a, gw2.a], rate: 10 Mbit/s}
      p2: {ends: [gw1.b, gw2.b], rate: 20 Mbit/s}
overlay:
  transport: quic
  branches:
    b1: {id: 1, gateway: gw1, wan: [a, b], lan: lan, prefix: 10.1.0.0/24}
    b2: {id: 2, gateway: gw2, wan: [a, b], lan: lan, prefix: 10.2.0.0/24}
  path_groups:
    both: {paths: [b1.a>b2.a, b1.b>b2.b]}
measurements:
  m: {probe: bandwidth, method: passive, from: gw1, to: gw2, port: 100 Mbit/s, duration: 9 s}
"""
RATES = {"group:0:path:0": 10.0, "group:0:path:1": 20.0}
HEADERS = 0.1
"""Share of a frame that is not the tunnel's packet, at most."""


def scenario(*overrides: str) -> Scenario:
    return load("x.yaml", lambda _: WORKFLOW.encode(), overrides).variants[0].scenario


@contextlib.contextmanager
def deployed(driver: LocalDriver, name: str, about: Scenario) -> Iterator[LocalLab]:
    lab = driver.deploy(name, network(about, driver.facts()))
    try:
        until(lambda: ping(lab.nodes["h1"], "10.2.0.2"), "h1 reaches h2")
        yield lab
    finally:
        lab.destroy()


@contextlib.contextmanager
def full(lab: LocalLab) -> Iterator[None]:
    """Four TCP connections from h1 to h2."""
    h1, h2 = lab.nodes["h1"], lab.nodes["h2"]
    server = h2.start(["iperf3", "-s", "-p", "5999"])
    until(lambda: "5999" in h2.run(["ss", "-Hltn"], timeout=60).stdout)
    client = h1.start(["iperf3", "-c", "10.2.0.2", "-p", "5999", "-P", "4", "-t", "120"])
    try:
        yield
    finally:
        client.stop()
        server.stop()


def estimates(lab: LocalLab, about: Scenario, raw: Path) -> dict[tuple[str, str], float]:
    """Values by subject and metric."""
    measurement = about.measurements["m"]
    assert isinstance(measurement, Bandwidth)
    found = PassiveBandwidthProbe(measurement).measure(Context(lab, "m", raw, lambda: None))
    return {(each.subject, each.metric): each.value for each in found}


def test_full_paths_tell_their_bandwidth(
    driver: LocalDriver, lab_name: str, tmp_path: Path
) -> None:
    about = scenario()
    with deployed(driver, lab_name, about) as lab, full(lab):

        def known() -> bool:
            values = estimates(lab, about, tmp_path)
            return all(
                values[path, "trains"] >= 6
                and (1 - HEADERS) * rate * 0.85 <= values[path, "available_bandwidth"] <= 1.1 * rate
                and values[path, "probe_traffic"] == 0
                for path, rate in RATES.items()
            )

        until(known, "both paths are known", seconds=100)


def test_idle_paths_tell_nothing(driver: LocalDriver, lab_name: str, tmp_path: Path) -> None:
    about = scenario("measurements.m.duration=3 s")
    with deployed(driver, lab_name, about) as lab:
        values = estimates(lab, about, tmp_path)
    for path in RATES:
        bounds = [values[path, f"available_bandwidth_{bound}"] for bound in ("low", "high")]
        assert bounds == [0, 100]


def test_only_gateways_are_asked(driver: LocalDriver, lab_name: str, tmp_path: Path) -> None:
    about = scenario("measurements.m.from=h1", "measurements.m.duration=2 s")
    with (
        deployed(driver, lab_name, about) as lab,
        pytest.raises(ProbeError, match="h1 is no gateway"),
    ):
        estimates(lab, about, tmp_path)
