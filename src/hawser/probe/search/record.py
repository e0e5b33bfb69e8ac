"""Everything that a reader of a throughput must know, kept with the trial's raw output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hawser.probe.load.generator import Outcome
from hawser.probe.search.trial import Goal, Log, LowerBound, Trial
from hawser.spec.measurement import Throughput


@dataclass
class Record:
    """What became of a search, as far as it came.

    Attributes:
        backend: how frames were sent and received.
        limit: frames a second that the generator can send.
        goal: what was searched for.
        log: the trials of the search.
        bounds: what was found, one for each goal.
        at: trials at what was found, by what they are for.
        others: trials of the loss curve and of bursts.
    """

    backend: str
    limit: float | None = None
    goal: Goal | None = None
    log: Log | None = None
    bounds: Sequence[LowerBound] = ()
    at: dict[str, Outcome] = field(default_factory=dict)
    others: list[Trial] = field(default_factory=list)

    @property
    def discarded(self) -> list[tuple[int, ...]]:
        """Attempts that were repeated, of every trial."""
        trials = [*(self.log.trials if self.log else ()), *self.others]
        return [each.discarded for each in (*trials, *self.at.values())]

    def write(self, path: Path, spec: Throughput) -> None:
        """Write the record as JSON."""
        path.write_text(json.dumps(self._document(spec), indent=1) + "\n")

    def _document(self, spec: Throughput) -> dict[str, Any]:
        trials = self.log.trials if self.log else []
        return {
            "mode": spec.mode,
            "backend": self.backend,
            "direction": "forward",
            "counted": spec.counted,
            "loss_ratio": float(spec.loss),
            "part_load": spec.part_load,
            "flows": spec.flows.count,
            "sending_cores": 1,
            "generator_frames_per_s": self.limit,
            "headroom": self.bounds[0].load / self.limit if self.bounds and self.limit else None,
            "goal": asdict(self.goal) if self.goal else None,
            "found": [asdict(each) | {"throughput": each.throughput} for each in self.bounds],
            "seconds": sum(trial.seconds for trial in trials),
            "repeated": sum(map(len, self.discarded)),
            "trials": [asdict(trial) for trial in trials],
            "at": {name: _at(outcome) for name, outcome in self.at.items()},
            "others": [asdict(trial) for trial in self.others],
        }


def _at(outcome: Outcome) -> dict[str, Any]:
    return {
        "sent": outcome.sent.model_dump(),
        "received": outcome.received.model_dump(),
        "lost": outcome.lost,
        "discarded": outcome.discarded,
    }
