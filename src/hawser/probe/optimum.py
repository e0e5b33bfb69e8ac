"""Goodput between branches as a share of what the path program says is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hawser.overlay.lab.automatic import branches_of, declared, demand
from hawser.overlay.sdwan.automatic import automatic_pairs
from hawser.spec.measurement import Iperf3, offset, warmup
from hawser.spec.port import node_of
from hawser.spec.topology import Topology
from hawser.spec.workflow import Event, Scenario
from hawser.store.sample import Sample


def shares(scenario: Scenario, names: Sequence[str], samples: Sequence[Sample]) -> list[Sample]:
    """Give the share of each direction of two branches, in labs with a controller.

    The optimum is that of the rates in force when the measured time begins, over all paths that
    automatic groups could have, for the demand of the measurements that run together.

    Args:
        scenario: of the trial.
        names: measurements that ran together.
        samples: what they gave.

    Returns:
        One sample for each direction, as the first of its measurements; none where the optimum is
        not known, because something else than rates of paths has changed.
    """
    transfers = [name for name in names if isinstance(scenario.measurements[name], Iperf3)]
    overlay, begun = scenario.overlay, _changes(scenario, transfers)
    if overlay is None or scenario.controller is None or not transfers or begun is None:
        return []
    from hawser.optimise.program import Program  # imports the solver, which few trials need

    now = _changed(scenario.topology, begun)
    measured = {name: scenario.measurements[name] for name in transfers}
    alone = scenario.model_copy(update={"measurements": measured})
    pairs = list(automatic_pairs(overlay))
    best = Program().solve(declared(now, overlay), demand(alone, overlay, pairs)).rates
    branches = branches_of(scenario.topology, overlay)
    found: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        if sample.measurement in measured and (sample.metric, sample.kind) == (
            "goodput",
            "summary",
        ):
            found.setdefault(_pair(scenario, branches, sample.measurement), []).append(sample)
    return [
        several[0].model_copy(
            update={
                "metric": "optimum_share",
                "unit": "ratio",
                "value": sum(each.value for each in several) * 1e6 / best[pair],
                "subject": "-".join(pair),
            }
        )
        for pair, several in found.items()
        if best.get(pair, 0.0) > 0
    ]


def _pair(scenario: Scenario, branches: Mapping[str, str], name: str) -> tuple[str, str]:
    """Give the branches of a transfer's sender and receiver; empty names for none."""
    measurement = scenario.measurements[name]
    ends = [branches.get(node_of(end), "") for end in (measurement.source, measurement.target)]
    if isinstance(measurement, Iperf3) and measurement.reverse:
        ends.reverse()
    return ends[0], ends[1]


def _changes(scenario: Scenario, names: Sequence[str]) -> list[Event] | None:
    """Give the changes of paths' rates before the measured time; None where others matter too."""
    measurements = scenario.measurements
    begins = min(
        (offset(measurements, name) + float(warmup(measurements[name])) for name in names),
        default=0.0,
    )
    events = list(scenario.events)
    known = all(each.kind == "path" and each.change.rate is not None for each in events)
    return events if known and all(float(each.at) <= begins for each in events) else None


def _changed(topology: Topology, events: Sequence[Event]) -> Topology:
    """Give the topology after changes of paths' rates, which are for both directions."""
    internet = topology.internet
    if internet is None or not events:
        return topology
    paths = dict(internet.paths)
    for event in events:
        name, rate = event.element.partition(":")[2], event.change.rate
        back = paths[name].reverse
        reverse = None if back is None else back.model_copy(update={"rate": rate})
        paths[name] = paths[name].model_copy(update={"rate": rate, "reverse": reverse})
    return topology.model_copy(update={"internet": internet.model_copy(update={"paths": paths})})
