"""Converts trial results to samples."""

from __future__ import annotations

from collections.abc import Iterable

from hawser.probe.load.daemon import Received
from hawser.probe.load.generator import Outcome
from hawser.probe.ping import FINE
from hawser.spec.metric import METRICS
from hawser.store.sample import Sample


def sample(measurement: str, metric: str, value: float, subject: str = "") -> Sample:
    """Make a sample for the direction from `from` to `to`."""
    return Sample(
        measurement=measurement,
        metric=metric,
        unit=METRICS[metric],
        value=value,
        direction="forward",
        subject=subject,
    )


def delays(measurement: str, received: Received, prefix: str = "") -> list[Sample]:
    """Delays of a trial; none if no frame arrived. The metric prefix names the load."""
    stream = received.streams[0]
    found = {
        "delay": stream.delay.p50_ns,
        "delay_p99": stream.delay.p99_ns,
        "delay_p999": stream.delay.p999_ns if received.unique >= FINE else None,
        "variation_p99": stream.variation.p99_ns,
    }
    return [
        sample(measurement, prefix + metric, nanoseconds / 1e6)
        for metric, nanoseconds in found.items()
        if nanoseconds is not None
    ]


def accounts(measurement: str, outcome: Outcome) -> list[Sample]:
    """Fate of the frames, in percent of those sent (`unsent`: percent of those due)."""
    sent, received = outcome.sent, outcome.received
    shares = {
        "duplicated": received.duplicated / sent.frames,
        "reordered": received.reordered / sent.frames,
        "unsent": sent.unsent / sent.scheduled,
    }
    found = [sample(measurement, metric, 100 * share) for metric, share in shares.items()]
    return [loss(measurement, outcome), *found]


def loss(measurement: str, outcome: Outcome, prefix: str = "") -> Sample:
    """Frames lost, in percent of those sent. The metric prefix names the load."""
    return sample(measurement, f"{prefix}loss", 100 * outcome.lost / outcome.sent.frames)


def repeated(measurement: str, trials: Iterable[tuple[int, ...]]) -> Sample:
    """Attempts that were repeated because the generator did not keep up, of all trials."""
    return sample(measurement, "trials_repeated", float(sum(map(len, trials))))
