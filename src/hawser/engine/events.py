"""Things that happen while a trial measures: applied to the lab at their time."""

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
    """What became of an event."""

    event: Event
    at: float
    """When it was done, in seconds after traffic started."""
    moment: float
    """The same by the clock."""
    error: str | None = None


class Timeline:
    """Applies events from a thread of its own, timed from the first call of `start`."""

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
        """Begin to count time. Later calls do nothing: the first traffic is what counts."""
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
        """Say what was done so far."""
        return tuple(self._done)

    def stop(self) -> tuple[Applied, ...]:
        """Let nothing more happen, and say what did. Idempotent."""
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join()
        return tuple(self._done)

    def problems(self) -> tuple[str, ...]:
        """Why the trial did not get the events it was to have; call after `stop`."""
        failed = [f"event at {done.event.at}: {done.error}" for done in self._done if done.error]
        late = self._events[len(self._done) :]
        return (
            *failed,
            *(f"event at {event.at} came after the last measurement" for event in late),
        )
