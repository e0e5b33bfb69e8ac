"""Whether void trials may have biased a run: too many of a variant, or more of some than of others.

Trials are void when the machine was disturbed, a tool failed or a daemon died. If that depends on
the variant, those left are a selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

LEAST = 0.8
"""Share of a variant's repeats that need a valid trial."""
SIGNIFICANT = 0.05
_RESAMPLES = 9999


@dataclass(frozen=True)
class Trials:
    """Trials of one variant."""

    repeats: int
    """Planned repeats."""
    done: int
    """Repeats with a valid trial."""
    valid: int
    """Valid trials, of all attempts."""
    void: int


def problems(found: Mapping[str, Trials]) -> tuple[str, ...]:
    """Why a run must not be relied on; by variant what became of its trials.

    Rates are compared by Fisher's exact test, with more than two variants by its Monte Carlo
    version (seeded).
    """
    lost = [
        f"only {trials.done} of {trials.repeats} repeats of {name} have a valid trial"
        for name, trials in found.items()
        if 0 < trials.done < LEAST * trials.repeats
    ]
    return (*lost, *_unequal(found))


def _unequal(found: Mapping[str, Trials]) -> Sequence[str]:
    table = np.array([[t.void, t.valid] for t in found.values() if t.void + t.valid])
    if len(table) < 2 or not table[:, 0].any() or not table[:, 1].any():
        return ()
    p = _fisher(table)
    if p > SIGNIFICANT:
        return ()
    rates = {name: t.void / (t.void + t.valid) for name, t in found.items() if t.void + t.valid}
    most, least = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
    text = (
        f"void trials differ between variants (p = {p:.2g}): {_of(found[most])} of {most},"
        f" {_of(found[least])} of {least}"
    )
    return (text,)


def _of(trials: Trials) -> str:
    return f"{trials.void} of {trials.void + trials.valid} trials"


def _fisher(table: np.typing.NDArray[np.int64]) -> float:
    if len(table) == 2:
        return float(scipy.stats.fisher_exact(table).pvalue)
    method = scipy.stats.MonteCarloMethod(n_resamples=_RESAMPLES, rng=np.random.default_rng(1))
    # For some tables SciPy gives an array of one element.
    return float(np.ravel(scipy.stats.fisher_exact(table, method=method).pvalue)[0])
