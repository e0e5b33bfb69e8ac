"""Run bundles made from invented numbers, for tests. No number here was measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from hawser.spec.measurement import Iperf3, Ping
from hawser.spec.overlay import Branch, Overlay, PathGroup, Transport
from hawser.spec.topology import Internet, Link, Node, Topology, WanPath, WanPort
from hawser.spec.units import Rate
from hawser.spec.workflow import Assertion, Labels, Reference, Scenario, Variant, Workflow
from hawser.store import Machine, Manifest, Revision, RunWriter, Sample, TrialPlan, run_id

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ENDS = (("gw1.a", "gw2.a"), ("gw1.a", "gw2.b"), ("gw1.b", "gw2.a"), ("gw1.b", "gw2.b"))
RATIOS = ("10:10:10:10", "4:8:12:16", "2:4:8:26", "1:2:4:33")
SCHEMES = ("tcp-ipomp", "udp-ipomp", "mptcp-end-to-end", "ipip-direct", "ipip-best")
SHARE = {"tcp-ipomp": 0.905, "udp-ipomp": 0.925, "mptcp-end-to-end": 0.80}
PUBLISHED = {
    "tcp-ipomp": (36.5, 34.0, 25.9, 16.4),
    "udp-ipomp": (37.3, 34.7, 26.3, 16.9),
    "mptcp-end-to-end": (38.4, 35.7, 26.9, 17.3),
}


def clock() -> Iterator[datetime]:
    """A clock that goes on by nine seconds each time it is read."""
    return (START + timedelta(seconds=9 * tick) for tick in itertools.count())


def topology(rates: Sequence[float]) -> Topology:
    """Two branches with two WAN ports each; path rates in Mbit/s."""
    paths = {
        f"p{i}": WanPath(ends=ends, rate=Rate(rate * 1e6))
        for i, (ends, rate) in enumerate(zip(ENDS, rates, strict=True), start=1)
    }
    ports = {port: WanPort(rate=Rate(100e6)) for port in ("gw1.a", "gw1.b", "gw2.a", "gw2.b")}
    return Topology(
        nodes={name: Node() for name in ("h1", "gw1", "gw2", "h2")},
        links={"lan1": Link(ends=("h1.lan", "gw1.lan")), "lan2": Link(ends=("gw2.lan", "h2.lan"))},
        internet=Internet(ports=ports, paths=paths),
    )


def overlay(transport: str, groups: dict[str, PathGroup] | None = None) -> Overlay:
    """The overlay of `topology`."""
    branches = {
        f"b{i}": Branch.model_validate(
            {
                "id": i,
                "gateway": f"gw{i}",
                "wan": ["a", "b"],
                "lan": "lan",
                "prefix": f"10.{i}.0.0/24",
            }
        )
        for i in (1, 2)
    }
    return Overlay(transport=Transport(transport), branches=branches, path_groups=groups or {})


MEASUREMENTS = {
    "rtt": Ping.model_validate({"probe": "ping", "from": "h1", "to": "h2"}),
    "tcp": Iperf3.model_validate({"probe": "iperf3", "from": "h1", "to": "h2", "duration": "6 s"}),
}


def scenario(transport: str, rates: Sequence[float]) -> Scenario:
    """One variant's network and measurements."""
    return Scenario(topology=topology(rates), overlay=overlay(transport), measurements=MEASUREMENTS)


def quickstart(repeat: int = 5) -> Workflow:
    """Like workflows/quickstart.yaml."""
    transports = {"ipomp": "mptcp", "ipip-best": "ipip", "ipip-direct": "ipip"}
    return Workflow(
        name="quickstart",
        title="Four unequal paths, used together and one at a time",
        description="Synthetic: the numbers of this run are invented.",
        repeat=repeat,
        variants=tuple(
            Variant(labels={"transport": name}, scenario=scenario(kind, (4, 8, 12, 16)))
            for name, kind in transports.items()
        ),
        assertions=(
            Assertion(variant={"transport": "ipomp"}, metric="goodput", at_least=16),
            Assertion(metric="rtt", at_most=50),
        ),
    )


def table1(repeat: int = 5) -> Workflow:
    """Like workflows/mms-table1.yaml: four ratio rows times five schemes."""
    transport = {"mptcp-end-to-end": "none", "ipip-direct": "ipip", "ipip-best": "ipip"}
    return Workflow(
        name="mms-table1",
        title="Goodput over four member paths of unequal rate",
        description="Synthetic: the numbers of this run are invented.",
        repeat=repeat,
        variants=tuple(
            Variant(
                labels={"rates": ratio, "scheme": scheme},
                scenario=scenario(
                    transport.get(scheme, "mptcp"), [float(rate) for rate in ratio.split(":")]
                ),
            )
            for ratio in RATIOS
            for scheme in SCHEMES
        ),
        reference=tuple(
            Reference(
                variant={"rates": ratio, "scheme": scheme},
                metric="goodput",
                value=value,
                unit="Mbit/s",
                source="Lee, Chan, Chen: SD-WAN VPN, Table I",
            )
            for scheme, values in PUBLISHED.items()
            for ratio, value in zip(RATIOS, values, strict=True)
        ),
    )


def expected(labels: Labels) -> float:
    """An invented goodput, Mbit/s, that looks like the real thing."""
    if "transport" in labels:
        return {"ipomp": 36.4, "ipip-best": 14.8, "ipip-direct": 3.7}[labels["transport"]]
    rates = [float(rate) for rate in labels["rates"].split(":")]
    row, scheme = RATIOS.index(labels["rates"]), labels["scheme"]
    if scheme == "ipip-direct":
        return 0.93 * rates[0]
    if scheme == "ipip-best":
        return 0.93 * max(rates)
    return 40 * SHARE[scheme] - row * {"mptcp-end-to-end": 7.5}.get(scheme, 0.35)


def samples(
    labels: Labels, random: np.random.Generator, seconds: int = 6, scale: float = 1
) -> list[Sample]:
    """What one trial of these labels gives, its goodput times `scale`."""
    level = scale * expected(labels) * random.normal(1, 0.012)
    series = level * random.normal(1, 0.05, seconds).clip(0.5, 1.2)
    rtt = 1.2 + 30 / expected(labels) + random.gamma(2, 0.2, 20)
    goodput = {"measurement": "tcp", "metric": "goodput", "unit": "Mbit/s", "direction": "forward"}
    passive = {"measurement": "passive"}
    used = {"ipip-best": ("p4",), "ipip-direct": ("p1",)}.get(
        next(reversed(labels.values())), ("p1", "p2", "p3", "p4")
    )
    return [
        Sample(**goodput, value=float(series.mean())),
        *(
            Sample(**goodput, kind="interval", time=float(t), value=float(value))
            for t, value in enumerate(series, start=1)
        ),
        Sample(
            measurement="tcp", metric="retransmissions", unit="segments",
            direction="forward", value=float(random.poisson(40)),
        ),
        Sample(measurement="rtt", metric="rtt", unit="ms", value=float(np.median(rtt))),
        Sample(measurement="rtt", metric="ping_loss", unit="%", value=0.0),
        *(
            Sample(
                **passive, metric="drop_queue", unit="packets", direction="forward",
                subject=f"path:{path}:forward", value=float(random.poisson(25)),
            )
            for path in used
        ),
        *(
            Sample(**passive, metric=metric, unit=unit, subject=f"daemon:{gw}", value=value)
            for gw in ("gw1", "gw2")
            for metric, unit, value in (
                ("cpu", "%", float(random.normal(14, 1))),
                ("memory", "MiB", float(random.normal(38, 0.4))),
            )
        ),
    ]  # fmt: skip


def manifest(workflow: Workflow, seed: int = 7) -> Manifest:
    """The manifest of a run that has just begun, its trials in random order."""
    random = np.random.default_rng(seed)
    places = [(v.labels, r) for r in range(1, workflow.repeat + 1) for v in workflow.variants]
    order = [places[i] for i in random.permutation(len(places))]
    return Manifest(
        run=run_id(workflow.name, START, 0xC0DE),
        workflow=workflow.name,
        title=workflow.title,
        hawser="0.1.0",
        revision=Revision(commit="0123456789abcdef0123456789abcdef01234567", dirty=False),
        command=("hawser", "run", f"workflows/{workflow.name}.yaml"),
        started=START,
        machine=Machine(
            cpu="Synthetic CPU @ 2.00GHz", cores=2, memory=8 * 2**30,
            kernel="6.18.0", distribution="Debian GNU/Linux 12 (bookworm)",
        ),
        tools={"iperf3": "iperf 3.12", "ping": "iputils 20221126", "iproute2": "6.1.0"},
        kernel={"net.ipv4.tcp_congestion_control": "cubic", "net.mptcp.scheduler": "default"},
        seed=seed,
        order=tuple(
            TrialPlan(trial=number, variant=labels, repeat=repeat)
            for number, (labels, repeat) in enumerate(order, start=1)
        ),
    )  # fmt: skip


def write(
    runs: Path,
    workflow: Workflow,
    *,
    seed: int = 7,
    scale: float = 1,
    void: Mapping[int, str] = {},
    extra: Sequence[Sample] = (),
) -> Path:
    """Write a finished run and return its folder.

    Args:
        runs: folder of runs.
        workflow: what was run.
        seed: of the invented numbers.
        scale: factor of all goodputs.
        void: trials that are not valid, with the reason.
        extra: samples added to every trial.
    """
    ticks = clock()
    plan = manifest(workflow, seed)
    sources = {"workflow.yaml": f"# synthetic\nname: {workflow.name}\n".encode()}
    random = np.random.default_rng(seed)
    with RunWriter.create(runs, plan, workflow, sources, lambda: next(ticks)) as run:
        for place in plan.order:
            with run.trial(place.trial, place.variant, place.repeat) as trial:
                trial.add(samples(place.variant, random, scale=scale))
                trial.add(extra)
                if place.trial in void:
                    trial.void(void[place.trial])
        run.finish("done")
    return run.path
