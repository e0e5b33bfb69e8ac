"""The newest report of each gateway. A controller that starts anew has them within a second."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Statistics:
    """A report, with the names of its values."""

    branch: str
    run: str
    """The run of the agent that numbers its reports."""
    offset: int
    """Seconds that were added to the gateway's clock."""
    names: Sequence[str]
    time: int
    """Seconds since 1970, by the controller's clock."""
    sequence: int
    values: Sequence[float]
    """NaN where there is none."""
    lost: int
    """Reports of this run of the agent that were not stored: no room, too old, too early."""


class Latest:
    """Reports by gateway. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[int, Statistics] = {}

    def put(self, gateway: int, found: Statistics) -> None:
        """Take a report, unless a newer one is there."""
        with self._lock:
            last = self._found.get(gateway)
            if last is None or found.time >= last.time:
                self._found[gateway] = found

    def get(self, gateway: int) -> Statistics | None:
        """Give the newest report; None where there is none."""
        with self._lock:
            return self._found.get(gateway)

    def all(self) -> Mapping[int, Statistics]:
        """Give the newest report of every gateway."""
        with self._lock:
            return dict(self._found)

    def keep(self, gateways: Collection[int]) -> None:
        """Forget all other gateways."""
        with self._lock:
            self._found = {each: self._found[each] for each in self._found if each in gateways}

    def drop(self, gateway: int) -> None:
        """Forget a gateway."""
        with self._lock:
            self._found.pop(gateway, None)
