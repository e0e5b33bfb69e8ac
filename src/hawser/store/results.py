"""The part of a run that its results are computed from: small enough to be kept beside a text.

It is the manifest, the workflow as given and as resolved, tags and notes, the record of each trial,
and the summaries among its samples. Of the hundreds of counters only those are kept that the
workflow publishes or asserts. Raw output, logs, configurations and time series are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hawser.store.bundle import MANIFEST, RESOLVED, SAMPLES, TRIAL, TRIALS, Bundle, Trial
from hawser.store.notes import NOTES
from hawser.store.texts import TEXTS

_COUNTERS: Final = "passive"


def results(bundle: Bundle) -> dict[str, bytes]:
    """Give the files of a run that has nothing but its results: name -> content.

    Raises:
        BundleError: a trial is damaged.
        OSError: a file cannot be read.
    """
    top = [MANIFEST, RESOLVED, NOTES, *_names(bundle, "*.yaml"), *_names(bundle, f"{TEXTS}/*")]
    kept = {
        name: (bundle.path / name).read_bytes() for name in top if (bundle.path / name).exists()
    }
    wanted = frozenset(_wanted(bundle))
    for trial in bundle.trials:
        folder = f"{TRIALS}/{trial.path.name}"
        kept[f"{folder}/{TRIAL}"] = (trial.path / TRIAL).read_bytes()
        kept[f"{folder}/{SAMPLES}"] = _summaries(trial, wanted)
    return kept


def _names(bundle: Bundle, pattern: str) -> list[str]:
    return sorted(str(file.relative_to(bundle.path)) for file in bundle.path.glob(pattern))


def _wanted(bundle: Bundle) -> Iterator[str]:
    """Metrics of counters that the results need."""
    yield from (assertion.metric for assertion in bundle.workflow.assertions)
    yield from (metric for item in bundle.workflow.published for metric in item.metrics)


def _summaries(trial: Trial, counters: frozenset[str]) -> bytes:
    kept = (
        sample
        for sample in trial.samples()
        if sample.kind == "summary"
        and (sample.measurement != _COUNTERS or sample.metric in counters)
    )
    return b"".join(sample.model_dump_json().encode() + b"\n" for sample in kept)
