"""How precise the results of a run are so far."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from hawser.spec.workflow import Until
from hawser.store import Bundle

_Series = dict[tuple[object, ...], dict[int, float]]
"""By variant and quantity: repeat -> value."""


def precise(bundle: Bundle, until: Until, repeats: int) -> bool:
    """Whether the first repeats of every variant that has results reach a precision.

    Raises:
        BundleError: a trial is damaged.
    """
    return all(
        _narrow([value for repeat, value in values.items() if repeat <= repeats], until)
        for values in _series(bundle, until).values()
    )


def _narrow(values: Sequence[float], until: Until) -> bool:
    from hawser.stats import summarise  # imports scipy

    found = summarise(values) if values else None
    if found is None or found.interval is None:
        return False
    half = (found.interval.high - found.interval.low) / 2
    return half <= until.until * abs(found.median)


def _series(bundle: Bundle, until: Until) -> _Series:
    found: _Series = {}
    for trial in bundle.trials:
        record, inside = trial.record, dict[tuple[object, ...], list[float]]()
        for sample in trial.samples() if record.counts(until.metric) else ():
            named = until.measurement in (None, sample.measurement)
            if sample.kind == "summary" and sample.metric == until.metric and named:
                what: tuple[object, ...] = (sample.measurement, sample.direction, sample.subject)
                inside.setdefault(what, []).append(sample.value)
        for quantity, values in inside.items():
            key = (*sorted(record.variant.items()), *quantity)
            found.setdefault(key, {})[record.repeat] = median(values)
    return found
