"""What comes and goes during a measurement: programs and sockets, looked at now and again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hawser.driver.base import Lab
from hawser.node.base import NodeError, ThreadTimes
from hawser.probe import sockets
from hawser.probe.queues import Queues, Row

_LOOKS: Final = 8
"""In a measurement, but none more than once in 0.25 s and at least one a second."""
_LONG_ENOUGH: Final = 0.3
"""Share of the time that a thread must have been seen for, to say how busy it was."""

_Thread = tuple[str, int]
"""Subject and thread id."""


@dataclass(frozen=True)
class _Seen:
    """A thread at one look."""

    at: float
    times: ThreadTimes


class Watch:
    """Looks at programs, sockets and queues, in a thread of its own, from `start` to `stop`."""

    def __init__(self, lab: Lab, ends: tuple[str, str], queues: Queues, seconds: float) -> None:
        """Prepare to watch a lab.

        Args:
            lab: where.
            ends: nodes whose TCP connections are looked at.
            queues: read at every look.
            seconds: how long it will take.
        """
        self._lab = lab
        self._ends = tuple(end for end in ends if end in lab.nodes)
        self._others = {
            end for each in lab.plan.cross_traffic for end in (each.source, each.target)
        }
        self._queues = queues
        self._interval = min(1.0, max(0.25, seconds / _LOOKS))
        self._began = self._ended = 0.0
        self._threads: dict[_Thread, tuple[_Seen, _Seen]] = {}
        self._connections = {end: dict[str, sockets.Connection]() for end in self._ends}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._began = time.monotonic()
        self._look()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, with a last look. Idempotent."""
        if self._thread is not None and not self._over.is_set():
            self._over.set()
            self._thread.join()
            self._look()
            self._ended = time.monotonic()

    def _run(self) -> None:
        while not self._over.wait(self._interval):
            self._look()

    def _look(self) -> None:
        """Look once; what cannot be read now is looked at the next time."""
        with contextlib.suppress(NodeError):
            self._queues.read()
        self._look_at_programs()
        for end in self._ends:
            with contextlib.suppress(NodeError):
                self._connections[end] |= sockets.connections(self._lab.nodes[end])

    def _look_at_programs(self) -> None:
        owners = {}
        for name, daemon in self._lab.daemons.items():
            with contextlib.suppress(NodeError):
                owners[daemon.pid] = f"daemon:{name}"
        # Senders of cross traffic are no bottleneck: if they are too slow, the trial is void.
        watched = (each for each in self._lab.nodes.values() if each.name not in self._others)
        for node in watched:
            for each in node.programs():
                subject = owners.get(each.pid) or f"program:{node.name}:{each.name}"
                for tid, times in each.threads.items():
                    seen = _Seen(time.monotonic(), times)
                    first, _ = self._threads.get((subject, tid), (seen, seen))
                    self._threads[subject, tid] = (first, seen)

    def rows(self) -> Iterator[Row]:
        """Say how busy programs were, and what connections waited for."""
        yield from self._program_rows()
        for end, found in self._connections.items():
            busy = sum(each.busy for each in found.values())
            if busy > 0:
                window = sum(each.receive_window for each in found.values())
                buffer = sum(each.send_buffer for each in found.values())
                yield f"socket:{end}", "receive_window_limited", "%", 100 * window / busy
                yield f"socket:{end}", "send_buffer_limited", "%", 100 * buffer / busy

    def _program_rows(self) -> Iterator[Row]:
        """Of each program its busiest thread: how long it ran, and how long it would have run."""
        least = _LONG_ENOUGH * (self._ended - self._began)
        busiest: dict[str, tuple[float, float]] = {}
        for (subject, _), (first, last) in self._threads.items():
            seconds = last.at - first.at
            if seconds > 0 and seconds >= least:
                ran = (last.times.run - first.times.run) / seconds
                waited = (last.times.wait - first.times.wait) / seconds
                busiest[subject] = max(busiest.get(subject, (0.0, 0.0)), (ran + waited, ran))
        for subject, (wanted, ran) in busiest.items():
            yield subject, "thread_demand", "%", 100 * wanted
            yield subject, "thread_cpu", "%", 100 * ran
