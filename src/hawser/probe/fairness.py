"""Fairness between measurements that run side by side, such as flows that start one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from hawser.spec.measurement import Measurement, offset, rivals, warmup
from hawser.stats.fairness import jain
from hawser.store.sample import Sample


def between(
    measurements: Mapping[str, Measurement], names: Sequence[str], samples: Sequence[Sample]
) -> list[Sample]:
    """Jain's index of the goodputs of measurements in one direction, while all are measured.

    Args:
        measurements: of the trial.
        names: those that ran together.
        samples: what they gave.

    Returns:
        One sample for each direction with several transfers, as the first one's, its subject all
        their names; none where they have no second in common.
    """
    found = []
    for several in rivals(measurements, names):
        index = jain(_shares(measurements, several, samples))
        if index is not None:
            first = next(s for s in samples if s.measurement == several[0])
            found.append(
                Sample(
                    measurement=several[0],
                    metric="fairness",
                    unit="ratio",
                    value=index,
                    direction=first.direction,
                    subject=" + ".join(several),
                )
            )
    return found


def _shares(
    measurements: Mapping[str, Measurement], names: Sequence[str], samples: Sequence[Sample]
) -> list[float]:
    """Mean goodput of each while all are measured; empty if they never are."""
    begins = {name: offset(measurements, name) for name in names}
    start = max(begins[name] + float(warmup(measurements[name])) for name in names)
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    intervals = (s for s in samples if s.kind == "interval" and s.metric == "goodput")
    for sample in intervals:
        if sample.measurement in begins and sample.time is not None:
            at = begins[sample.measurement] + sample.time
            series[sample.measurement].append((at, sample.value))
    end = min((max(at for at, _ in points) for points in series.values()), default=0.0)
    inside = [[v for at, v in series[name] if start < at <= end + 1e-6] for name in names]
    return [fmean(values) for values in inside] if all(inside) else []
