"""Probe that sends a constant load and accounts for every frame."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from hawser.node.base import NodeError
from hawser.probe.base import Context, ProbeError
from hawser.probe.load import config, samples
from hawser.probe.load.config import Amount
from hawser.probe.load.generator import HEADROOM, Outcome, open_generator
from hawser.spec.measurement import Load
from hawser.store.sample import Sample

_DRAIN_SECONDS = 0.5


class LoadProbe:
    """Measures one trial at a given rate."""

    def __init__(self, spec: Load, sleep: Callable[[float], None] = time.sleep) -> None:
        self._spec = spec
        self._sleep = sleep

    def measure(self, context: Context) -> list[Sample]:
        """Calibrate, then measure once.

        Raises:
            ProbeError: the rate exceeds what the generator can deliver, or a daemon failed.
        """
        try:
            outcome = self._trial(context)
        except (NodeError, ProbeError) as error:
            place = f"load {self._spec.source} -> {self._spec.target}"
            raise ProbeError(f"{place}: {error}") from error
        path = context.raw / f"{context.measurement}.load.json"
        path.write_text(
            f'{{"sent": {outcome.sent.model_dump_json()}, '
            f'"received": {outcome.received.model_dump_json()}, '
            f'"discarded": {json.dumps(outcome.discarded)}}}\n'
        )
        rate = outcome.received.unique / self._spec.duration
        received = rate * config.mean_bits(self._spec) / 1e6
        return [
            samples.sample(context.measurement, "received", received),
            *samples.accounts(context.measurement, outcome),
            *samples.delays(context.measurement, outcome.received),
            samples.repeated(context.measurement, [outcome.discarded]),
        ]

    def _trial(self, context: Context) -> Outcome:
        rate = self._spec.rate / config.mean_bits(self._spec)
        with open_generator(
            context, self._spec, drain=_DRAIN_SECONDS, sleep=self._sleep
        ) as generator:
            limit = generator.calibrate()
            if rate > HEADROOM * limit:
                raise ProbeError(
                    f"{rate:.0f} frames/s are more than {HEADROOM:.0%} of the {limit:.0f} that the "
                    f"generator ({generator.backend}) can send to itself here"
                )
            context.started()
            return generator.trial(Amount(max(1, round(rate * self._spec.duration)), rate))

    def seconds(self) -> float:
        """Time that calibration, trial and drain take, in seconds."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """Commands that find the next hop."""
        return ("ip", "ping")
