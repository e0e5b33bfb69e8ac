"""How a report names metrics, and which of them are better higher."""

from __future__ import annotations

import pytest

from hawser.report.words import term
from hawser.spec.metric import MEASURED

HIGHER = (
    *("goodput", "requests", "connections", "throughput", "received", "pdr", "path_mtu"),
    *("available_bandwidth", "available_bandwidth_low", "available_bandwidth_high"),
    *("path_capacity", "trains", "optimum_share"),
)


@pytest.mark.parametrize("metric", MEASURED)
def test_the_better_side_of_a_metric(metric: str) -> None:
    """Delays, losses and repetitions are better lower, or a regression would pass for progress."""
    name = metric.removeprefix("conditional_").removesuffix("_frames")
    higher = name in (*HIGHER, "goodput_min", "fairness", "burst", "buffer")
    assert term(metric).better == ("higher" if higher else "lower")
