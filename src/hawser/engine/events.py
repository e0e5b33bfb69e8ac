"""Events during a trial, applied to the lab at their times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hawser.node.base import NodeError
from hawser.spec.workflow import Change, Event

Apply = Callable[[str, Change], float]
"""Makes a change, and says when it was made, by the clock."""


@dataclass(frozen=True)
class Applied:
    """The result of an event."""

    event: Event
    at: float
    """When it was done, in seconds after traffic started."""
    moment: float
    """The same by the clock."""
    error: str | None = None


class Timeline:
    """Applies events in a separate thread, timed from the first call of `start`."""

    def __init__(
        self,
        events: Sequence[Event],
        apply: Apply,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._events = sorted(events, key=lambda event: event.at)
        self._apply = apply
        self._clock = clock
        self._cancelled = threading.Event()
        self._done: list[Applied] = []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the clock. Later calls do nothing: the first traffic counts."""
        if self._thread is None:
            began = self._clock()
            self._thread = threading.Thread(target=self._run, args=(began,), name="events")
            self._thread.start()

    def _run(self, began: float) -> None:
        for event in self._events:
            if self._cancelled.wait(max(0.0, began + event.at - self._clock())):
                return
            try:
                moment, error = self._apply(event.element, event.change), None
            except NodeError as refused:
                moment, error = self._clock(), str(refused)
            self._done.append(Applied(event, moment - began, moment, error))

    def done(self) -> tuple[Applied, ...]:
        """Give the events applied so far."""
        return tuple(self._done)

    def stop(self) -> tuple[Applied, ...]:
        """Apply no more events, and give those applied. Idempotent."""
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join()
        return tuple(self._done)

    def problems(self) -> tuple[str, ...]:
        """Errors of events, and events that were not applied; call after `stop`."""
        failed = [f"event at {done.event.at}: {done.error}" for done in self._done if done.error]
        late = self._events[len(self._done) :]
        return (
            *failed,
            *(f"event at {event.at} came after the last measurement" for event in late),
        )
