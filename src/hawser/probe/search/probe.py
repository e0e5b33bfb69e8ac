"""The highest load that gets through between two nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from hawser.node.base import NodeError
from hawser.probe.base import Context, ProbeError
from hawser.probe.load import config, samples
from hawser.probe.load.config import Amount
from hawser.probe.load.generator import HEADROOM, Generator, Outcome, open_generator
from hawser.probe.search import rfc2544
from hawser.probe.search.back_to_back import back_to_back
from hawser.probe.search.loss_curve import loss_curve
from hawser.probe.search.trial import Found, Goal, Measure, SearchError, Trial
from hawser.spec.measurement import Throughput
from hawser.spec.metric import RFC2544_TRIAL
from hawser.store.sample import Sample

_LONGEST_BURST_SECONDS = 2.0
"""Of the maximum rate (RFC 9004 section 5.4: trials of at least 2 s)."""


@dataclass(frozen=True)
class _Searched:
    """A search on a generator of known limit."""

    limit: float
    goal: Goal
    found: Found


class ThroughputProbe:
    """One search, and what is asked for besides."""

    def __init__(self, spec: Throughput, sleep: Callable[[float], None] = time.sleep) -> None:
        self._spec = spec
        self._sleep = sleep
        self._bits = config.mean_bits(spec)

    def measure(self, context: Context) -> list[Sample]:
        """Calibrate, search, then measure delays at what was found.

        Raises:
            ProbeError: the search has no result, or one beyond the reliable range of the generator.
        """
        spec = self._spec
        try:
            with open_generator(context, spec, drain=spec.drain, sleep=self._sleep) as generator:
                context.started()
                return self._measure(context, generator)
        except (NodeError, ProbeError, SearchError) as error:
            place = f"throughput {spec.source} -> {spec.target}"
            raise ProbeError(f"{place}: {error}") from error

    def _measure(self, context: Context, generator: Generator) -> list[Sample]:
        trials: list[Trial] = []

        def measure(load: float, seconds: float) -> Trial:
            trials.append(_trial(generator, load, seconds))
            return trials[-1]

        searched = self._search(generator, measure)
        at = self._at(generator, searched.found.load)
        part = self._part_load(context.measurement, generator, searched.found.load)
        self._keep(context, generator, searched, trials)
        name = context.measurement
        return [
            *self._throughput(name, searched.found.load),
            *samples.delays(name, at.received),
            *part,
            *self._loss_curve(name, measure, searched.goal),
            *self._back_to_back(name, generator, searched),
        ]

    def _search(self, generator: Generator, measure: Measure) -> _Searched:
        limit = generator.calibrate()
        goal = self._goal(limit)
        if self._spec.mode == "rfc2544":
            found = rfc2544.search(measure, goal)
        else:
            from hawser.probe.search import (
                mlr,
            )  # MLRsearch inspects stacks for a while when imported

            found = mlr.search(measure, goal, float(self._spec.search_limit))
        if found.at_max_load and goal.max_load >= HEADROOM * limit:
            raise SearchError(
                f"all of {found.load:.0f} frames/s gets through, which is {HEADROOM:.0%} of what "
                f"the generator ({generator.backend}) can send: the path's limit is beyond that"
            )
        return _Searched(limit, goal, found)

    def _goal(self, limit: float) -> Goal:
        spec = self._spec
        min_load, max_load = spec.min_load / self._bits, HEADROOM * limit
        if spec.max_load is not None:
            max_load = min(max_load, spec.max_load / self._bits)
        if min_load >= max_load:
            raise SearchError(
                f"the minimum load, {min_load:.0f} frames/s, is more than the generator can send"
                " reliably"
            )
        return Goal(min_load, max_load, float(spec.trial), float(spec.loss), float(spec.resolution))

    def _at(self, generator: Generator, load: float) -> Outcome:
        """A trial at a load, for its delays (RFC 2544 section 26.2)."""
        return generator.trial(_amount(load, float(self._spec.trial)))

    def _part_load(self, measurement: str, generator: Generator, load: float) -> list[Sample]:
        """Delays below the throughput, where no queue stands full."""
        if self._spec.part_load is None:
            return []
        at = self._at(generator, load * self._spec.part_load)
        return samples.delays(measurement, at.received, "part_load_")

    def _throughput(self, measurement: str, load: float) -> list[Sample]:
        prefix = "" if self._spec.trial >= RFC2544_TRIAL else "conditional_"
        values = {"throughput": load * self._bits / 1e6, "throughput_frames": load}
        return [
            samples.sample(measurement, prefix + metric, value) for metric, value in values.items()
        ]

    def _loss_curve(self, measurement: str, measure: Measure, goal: Goal) -> list[Sample]:
        if not self._spec.loss_curve:
            return []
        curve = loss_curve(measure, goal.max_load, goal.seconds)
        return [
            samples.sample(
                measurement, "frame_loss", 100 * trial.loss, f"{trial.load / goal.max_load:.0%}"
            )
            for trial in curve
        ]

    def _back_to_back(
        self, measurement: str, generator: Generator, searched: _Searched
    ) -> list[Sample]:
        if not self._spec.back_to_back:
            return []
        rate = searched.goal.max_load
        longest = round(rate * _LONGEST_BURST_SECONDS)

        def burst(frames: int) -> Trial:
            return _trial(generator, rate, frames / rate)

        found = back_to_back(burst, longest, self._spec.back_to_back)
        if found.unbounded:
            return []  # RFC 9004 section 5.4: no buffer limit can be found
        buffer = found.buffer_seconds(rate, searched.found.load)
        return [
            samples.sample(measurement, "burst", found.mean),
            samples.sample(measurement, "buffer", 1000 * buffer),
        ]

    def _keep(
        self, context: Context, generator: Generator, searched: _Searched, trials: list[Trial]
    ) -> None:
        """The whole search, with all that a reader of the number must know."""
        spec = self._spec
        document = {
            "mode": spec.mode,
            "backend": generator.backend,
            "direction": "forward",
            "counted": spec.counted,
            "loss_ratio": float(spec.loss),
            "part_load": spec.part_load,
            "flows": spec.flows.count,
            "sending_cores": 1,
            "generator_frames_per_s": searched.limit,
            "headroom": searched.found.load / searched.limit,
            "goal": asdict(searched.goal),
            "found": asdict(searched.found),
            "trials": [asdict(trial) for trial in trials],
        }
        path = context.raw / f"{context.measurement}.throughput.json"
        path.write_text(json.dumps(document, indent=1) + "\n")

    def seconds(self) -> float:
        """A guess: a binary search over three decades, or a third of it."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """What finds the way."""
        return ("ip", "ping")


def _amount(load: float, seconds: float) -> Amount:
    return Amount(frames=max(1, round(load * seconds)), rate=load)


def _trial(generator: Generator, load: float, seconds: float) -> Trial:
    outcome = generator.trial(_amount(load, seconds))
    return Trial(load, seconds, outcome.sent.frames, outcome.lost)
