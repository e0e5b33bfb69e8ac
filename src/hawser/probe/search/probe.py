"""The highest load that gets through between two nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from hawser.node.base import NodeError
from hawser.probe.base import Context, ProbeError
from hawser.probe.load import config, samples
from hawser.probe.load.config import Amount
from hawser.probe.load.generator import HEADROOM, Generator, Outcome, open_generator
from hawser.probe.search import rfc2544
from hawser.probe.search.back_to_back import back_to_back
from hawser.probe.search.loss_curve import loss_curve
from hawser.probe.search.record import Record
from hawser.probe.search.trial import Goal, Log, LowerBound, SearchError, Trial
from hawser.spec.measurement import Throughput
from hawser.spec.metric import RFC2544_TRIAL
from hawser.store.sample import Sample

_LONGEST_BURST_SECONDS = 2.0
"""Of the maximum rate (RFC 9004 section 5.4: trials of at least 2 s)."""


class ThroughputProbe:
    """One search, and what is asked for besides."""

    def __init__(
        self,
        spec: Throughput,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._sleep = sleep
        self._clock = clock

    def measure(self, context: Context) -> list[Sample]:
        """Calibrate, search, then measure loss and delays at what was found.

        Raises:
            ProbeError: the search has no result, or one beyond the reliable range of the generator.
        """
        spec = self._spec
        try:
            with open_generator(context, spec, drain=spec.drain, sleep=self._sleep) as generator:
                context.started()
                record = Record(generator.backend)
                try:
                    return _Measuring(spec, context.measurement, generator, record).all(self._clock)
                finally:
                    record.write(context.raw / f"{context.measurement}.throughput.json", spec)
        except (NodeError, ProbeError, SearchError) as error:
            place = f"throughput {spec.source} -> {spec.target}"
            raise ProbeError(f"{place}: {error}") from error

    def seconds(self) -> float:
        """A guess: a binary search over three decades, or a third of it."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """What finds the way."""
        return ("ip", "ping")


class _Measuring:
    """A measurement while it is carried out; all that happens is in the record."""

    def __init__(
        self, spec: Throughput, measurement: str, generator: Generator, record: Record
    ) -> None:
        self._spec = spec
        self._name = measurement
        self._generator = generator
        self._record = record
        self._bits = config.mean_bits(spec)

    def all(self, clock: Callable[[], float]) -> list[Sample]:
        """Search, and measure what is asked for at the loads found."""
        goal = self._goal()
        first, *second = self._search(goal, clock)
        found = [
            *self._throughput("throughput", first),
            *self._at(first.load),
            *(sample for bound in second for sample in self._partial_drop(bound)),
            *self._part_load(first.load),
            *self._loss_curve(goal),
            *self._back_to_back(goal, first),
        ]
        return [*found, samples.repeated(self._name, self._record.discarded)]

    def _goal(self) -> Goal:
        spec = self._spec
        limit = self._record.limit = self._generator.calibrate()
        min_load, max_load = spec.min_load / self._bits, HEADROOM * limit
        if spec.max_load is not None:
            max_load = min(max_load, spec.max_load / self._bits)
        if min_load >= max_load:
            raise SearchError(
                f"the minimum load, {min_load:.0f} frames/s, is more than the generator can send"
                " reliably"
            )
        losses = [spec.loss] if spec.partial_drop is None else [spec.loss, spec.partial_drop]
        goal = Goal(
            min_load,
            max_load,
            float(spec.trial),
            tuple(map(float, losses)),
            float(spec.resolution),
            spec.trials,
            float(spec.exceed),
        )
        self._record.goal = goal
        return goal

    def _search(self, goal: Goal, clock: Callable[[], float]) -> tuple[LowerBound, ...]:
        limit = float(self._spec.search_limit)
        end = clock() + limit
        log = Log(partial(self._trial, end=end, losses=goal.losses), limit, clock)
        self._record.log = log
        if self._spec.mode == "rfc2544":
            bounds = rfc2544.search(log, goal)
        else:
            # MLRsearch inspects stacks for a while when imported
            from hawser.probe.search import mlr

            bounds = mlr.search(log, goal)
        self._record.bounds = bounds
        self._require_headroom(goal, bounds)
        return bounds

    def _require_headroom(self, goal: Goal, bounds: tuple[LowerBound, ...]) -> None:
        if self._record.limit is None or goal.max_load < HEADROOM * self._record.limit:
            return
        for bound in bounds:
            if bound.at_max_load:
                raise SearchError(
                    f"all of {bound.load:.0f} frames/s gets through, which is {HEADROOM:.0%} of "
                    f"what the generator ({self._generator.backend}) can send: the path's limit is "
                    "beyond that"
                )

    def _trial(
        self, load: float, seconds: float, end: float = math.inf, losses: Sequence[float] = ()
    ) -> Trial:
        outcome = self._generator.trial(_amount(load, seconds), end, losses)
        sent = outcome.sent
        return Trial(load, seconds, sent.frames, outcome.lost, outcome.discarded, sent.unsent)

    def _confirm(self, what: str, load: float) -> Outcome:
        """A trial at a load that was found, for its loss and delays (RFC 2544 section 26.2)."""
        outcome = self._generator.trial(_amount(load, float(self._spec.trial)))
        self._record.at[what] = outcome
        return outcome

    def _at(self, load: float) -> list[Sample]:
        outcome = self._confirm("throughput", load)
        accounts = samples.accounts(self._name, outcome)
        return [*accounts, *samples.delays(self._name, outcome.received)]

    def _partial_drop(self, bound: LowerBound) -> list[Sample]:
        """The same for the second goal loss ratio."""
        outcome = self._confirm("pdr", bound.load)
        return [*self._throughput("pdr", bound), *self._briefly("pdr_", outcome)]

    def _part_load(self, load: float) -> list[Sample]:
        """Loss and delays below the throughput, where no queue stands full."""
        if self._spec.part_load is None:
            return []
        return self._briefly("part_load_", self._confirm("part_load", load * self._spec.part_load))

    def _briefly(self, prefix: str, outcome: Outcome) -> list[Sample]:
        delays = samples.delays(self._name, outcome.received, prefix)
        return [samples.loss(self._name, outcome, prefix), *delays]

    def _throughput(self, metric: str, bound: LowerBound) -> list[Sample]:
        prefix = "" if self._spec.trial >= RFC2544_TRIAL else "conditional_"
        frames = bound.throughput
        return [
            samples.sample(self._name, prefix + metric, frames * self._bits / 1e6),
            samples.sample(self._name, f"{prefix}{metric}_frames", frames),
        ]

    def _loss_curve(self, goal: Goal) -> list[Sample]:
        if not self._spec.loss_curve:
            return []
        curve = loss_curve(self._trial, goal.max_load, goal.seconds)
        self._record.others += curve
        return [
            samples.sample(
                self._name, "frame_loss", 100 * trial.loss, f"{trial.load / goal.max_load:.0%}"
            )
            for trial in curve
        ]

    def _back_to_back(self, goal: Goal, bound: LowerBound) -> list[Sample]:
        if not self._spec.back_to_back:
            return []
        rate = goal.max_load
        longest = round(rate * _LONGEST_BURST_SECONDS)

        def burst(frames: int) -> Trial:
            trial = self._trial(rate, frames / rate)
            self._record.others.append(trial)
            return trial

        found = back_to_back(burst, longest, self._spec.back_to_back)
        if found.unbounded:
            return []  # RFC 9004 section 5.4: no buffer limit can be found
        buffer = found.buffer_seconds(rate, bound.throughput)
        return [
            samples.sample(self._name, "burst", found.mean),
            samples.sample(self._name, "buffer", 1000 * buffer),
        ]


def _amount(load: float, seconds: float) -> Amount:
    return Amount(frames=max(1, round(load * seconds)), rate=load)
