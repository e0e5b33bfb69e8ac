"""How precise the results of a run are so far."""

from __future__ import annotations

from collections.abc import Collection

from hawser.spec.metric import names
from hawser.spec.workflow import Until
from hawser.store import Bundle, Sample, of_trial

_Series = dict[tuple[object, ...], dict[int, tuple[float, bool]]]
"""By variant and quantity: repeat -> value, and whether it is censored."""


def precise(bundle: Bundle, until: Until, repeats: int) -> bool:
    """Whether the first repeats of every variant that has results reach a precision.

    Raises:
        BundleError: a trial is damaged.
    """
    return all(
        _precise([found for repeat, found in values.items() if repeat <= repeats], until)
        for values in _series(bundle, until).values()
    )


def _precise(found: Collection[tuple[float, bool]], until: Until) -> bool:
    from hawser.stats import summarise  # imports scipy

    if not found:
        return False
    values, censored = zip(*found, strict=True)
    return summarise(values, censored).precise(until.until)


def _series(bundle: Bundle, until: Until) -> _Series:
    found: _Series = {}
    for trial in bundle.trials:
        record, inside = trial.record, dict[tuple[object, ...], list[Sample]]()
        for sample in trial.samples() if record.counts(until.metric) else ():
            named = until.measurement in (None, sample.measurement)
            if sample.kind == "summary" and sample.metric in names(until.metric) and named:
                what: tuple[object, ...] = (sample.measurement, sample.direction, sample.subject)
                inside.setdefault(what, []).append(sample)
        for quantity, events in inside.items():
            key = (*sorted(record.variant.items()), *quantity)
            found.setdefault(key, {})[record.repeat] = of_trial(events)
    return found
