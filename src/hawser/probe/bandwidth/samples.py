"""Samples of an estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hawser.spec.metric import METRICS
from hawser.stats.bandwidth import Estimate
from hawser.store.sample import Sample

_LARGEST = 10.0
"""Stated error of an estimate of which nothing is known."""


def samples(
    measurement: str, found: Estimate, taken: Mapping[str, float], subject: str = ""
) -> Iterator[Sample]:
    """Give the samples of an estimate.

    Args:
        measurement: its name.
        found: the estimate.
        taken: further values by metric: what it took.
        subject: what was estimated, where a measurement has several.
    """
    values = {
        "available_bandwidth": found.available / 1e6,
        "available_bandwidth_low": found.low / 1e6,
        "available_bandwidth_high": found.high / 1e6,
        "estimate_error": 100 * _error(found),
        "trains": float(found.trains),
        **taken,
    }
    if found.capacity is not None:
        values["path_capacity"] = found.capacity / 1e6
    for metric, value in values.items():
        yield Sample(
            measurement=measurement,
            metric=metric,
            unit=METRICS[metric],
            value=value,
            direction="forward",
            subject=subject,
        )


def _error(found: Estimate) -> float:
    """Distance of the farther bound, as a share of the estimate."""
    farther = max(found.high - found.available, found.available - found.low)
    return min(_LARGEST, farther / found.available) if found.available > 0 else _LARGEST
