"""The most that a described network can carry between the two ends of a measurement."""

from __future__ import annotations

from hawser.report.model import Bounds
from hawser.spec.measurement import Iperf3
from hawser.spec.workflow import Scenario
from hawser.stats.capacity import UNBOUNDED, edges, maximum_flow, widest

_UNIT = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}


def bounds(scenario: Scenario, measurement: str, reverse: bool, unit: str) -> Bounds | None:
    """Bounds of a throughput measurement.

    Returns:
        None if the measurement has no two ends, the unit is no rate, or nothing limits the network.
    """
    described = scenario.measurements.get(measurement)
    if not isinstance(described, Iperf3) or unit not in _UNIT:
        return None
    ends = described.source.split(".")[0], described.target.split(".")[0]
    source, target = reversed(ends) if reverse else ends
    found = edges(scenario.topology)
    single = widest(found, source, target)
    if single in (0, UNBOUNDED):
        return None
    together = maximum_flow(found, source, target)
    return Bounds(together=together / _UNIT[unit], single=single / _UNIT[unit])
