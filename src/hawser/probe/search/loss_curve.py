"""Frame loss rate by load (RFC 2544 section 26.3)."""

from __future__ import annotations

from hawser.probe.search.trial import Measure, Trial

_STEP = 0.1
"""RFC 2544: steps of at most 10 % of the maximum load."""


def loss_curve(measure: Measure, load: float, seconds: float) -> list[Trial]:
    """Trials at 100 %, 90 %, ... of a load, until two in a row lose nothing."""
    trials: list[Trial] = []
    for step in range(10):
        trials.append(measure(load * (1 - step * _STEP), seconds))
        if len(trials) > 1 and not any(trial.lost for trial in trials[-2:]):
            break
    return trials
