"""The newest statistics of each gateway. A controller that starts anew has them within a second."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from hawser.control.series import Sample


@dataclass(frozen=True)
class Statistics:
    """A sample, with the names of its values."""

    names: Sequence[str]
    sample: Sample
    missed: int
    """Samples of this connection that did not arrive."""


class Latest:
    """Statistics by gateway. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[int, Statistics] = {}

    def put(self, gateway: int, names: Sequence[str], sample: Sample) -> None:
        """Take a sample."""
        with self._lock:
            last = self._found.get(gateway)
            missed = 0
            if last is not None and sample.sequence > last.sample.sequence:
                missed = last.missed + sample.sequence - last.sample.sequence - 1
            self._found[gateway] = Statistics(names, sample, missed)

    def get(self, gateway: int) -> Statistics | None:
        """Give the newest sample; None where there is none."""
        with self._lock:
            return self._found.get(gateway)

    def drop(self, gateway: int) -> None:
        """Forget a gateway."""
        with self._lock:
            self._found.pop(gateway, None)
