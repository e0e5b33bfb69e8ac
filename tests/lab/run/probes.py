"""Measurements on small labs without a run.

h1 p ---near--- a r b ---far, 10 Mbit/s--- p h2        `plan`

a e ---x, 20 Mbit/s each way--- e b                    `limited_pair`, for HTTP
"""

from __future__ import annotations

from pathlib import Path

from hawser.driver.local import LocalLab
from hawser.overlay.lab import NetworkPlan, network
from hawser.probe.base import Context
from hawser.probe.http import HttpProbe
from hawser.probe.registry import probe_for
from hawser.spec.measurement import Http, Iperf3, Measurement, Ping
from hawser.spec.topology import Link, Node, Topology
from hawser.spec.units import Rate
from hawser.spec.workflow import Scenario
from lab.plans.small import pair, whole

RATE = 10.0
"""Mbit/s of the link `far`."""
HTTP_RATE = 20.0
"""Mbit/s from b to a in `limited_pair`."""


def scenario() -> Scenario:
    return Scenario(
        topology=Topology(
            nodes={"h1": Node(), "r": Node(), "h2": Node()},
            links={
                "near": Link(ends=("h1.p", "r.a")),
                "far": Link(ends=("r.b", "h2.p"), rate=Rate(RATE * 1e6)),
            },
        ),
        measurements={"rtt": ping()},
    )


def plan() -> NetworkPlan:
    return network(scenario())


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


def ping(**fields: object) -> Ping:
    return Ping.model_validate(
        {"probe": "ping", "from": "h1", "to": "h2", "count": 5, "interval": "10 ms"} | fields
    )


def iperf3(**fields: object) -> Iperf3:
    given = {"probe": "iperf3", "from": "h1", "to": "h2", "duration": "2 s", "warmup": "1 s"}
    return Iperf3.model_validate(given | fields)


def limited_pair() -> NetworkPlan:
    """Two nodes whose cable carries 20 Mbit/s in each direction."""
    forward = pair(whole(HTTP_RATE * 1e6), rate=HTTP_RATE * 1e6)
    (shaper,) = forward.shapers
    name = "link:x:reverse"
    (leaf,) = shaper.classes
    back = {"node": "b", "name": name, "classes": (leaf.model_copy(update={"name": name}),)}
    return forward.model_copy(update={"shapers": (shaper, shaper.model_copy(update=back))})


def http(lab: LocalLab, raw: Path, **fields: object) -> dict[str, float]:
    """Measure requests from a to b for a second."""
    given = {"probe": "http", "from": "a", "to": "b", "duration": "1 s", "warmup": "0 s"}
    spec = Http.model_validate(given | fields)
    raw.mkdir(exist_ok=True)
    context = Context(lab, "web", raw, started=lambda: None)
    return {sample.metric: sample.value for sample in HttpProbe(spec).measure(context)}
