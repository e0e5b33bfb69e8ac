"""What comes and goes during a measurement: programs and sockets, looked at now and again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from hawser.driver.base import Lab
from hawser.node.base import NodeError, ThreadTimes
from hawser.probe import sockets
from hawser.probe.queues import Queues, Row

_LONG_ENOUGH: Final = 0.3
"""Share of the time that a thread must have been seen for, to say how busy it was."""

_Thread = tuple[str, int]
"""Subject and thread id."""


@dataclass(frozen=True)
class _Seen:
    """A thread at one look."""

    at: float
    times: ThreadTimes


@dataclass
class _Socket:
    """A connection that sends, at the first look and the last."""

    first: tuple[float, sockets.Connection]
    last: tuple[float, sockets.Connection]

    def waited(self) -> sockets.Connection:
        """Give the milliseconds between both looks."""
        one, other = self.first[1], self.last[1]
        return sockets.Connection(
            other.busy - one.busy,
            other.receive_window - one.receive_window,
            other.send_buffer - one.send_buffer,
        )

    @property
    def milliseconds(self) -> float:
        """Time between both looks."""
        return 1000 * (self.last[0] - self.first[0])


class Watch:
    """Looks at programs, sockets and queues whenever it is told to."""

    def __init__(self, lab: Lab, ends: tuple[str, str]) -> None:
        """Prepare to watch a lab.

        Args:
            lab: where.
            ends: nodes whose TCP connections are looked at.
        """
        self._lab = lab
        self._ends = tuple(end for end in ends if end in lab.nodes)
        self._others = {
            end for each in lab.plan.cross_traffic for end in (each.source, each.target)
        }
        self._queues = Queues(lab)
        self._looks: list[float] = []
        self._threads: dict[_Thread, tuple[_Seen, _Seen]] = {}
        self._sending = {end: dict[str, _Socket]() for end in self._ends}
        self._unread = {end: list[float]() for end in self._ends}

    def look(self) -> None:
        """Look once; what cannot be read now is looked at the next time."""
        with contextlib.suppress(NodeError):
            self._queues.read()
        self._look_at_programs()
        for end in self._ends:
            with contextlib.suppress(NodeError):
                self._look_at_sockets(end)
        self._looks.append(time.monotonic())

    def _look_at_sockets(self, end: str) -> None:
        seen, now = sockets.connections(self._lab.nodes[end]), time.monotonic()
        for name, each in seen.sending.items():
            known = self._sending[end].setdefault(name, _Socket((now, each), (now, each)))
            known.last = (now, each)
        if seen.receiving:
            self._unread[end].append(fmean(seen.receiving.values()))

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
        """Say how full queues were, how busy programs, and what connections waited for."""
        yield from self._queues.rows()
        yield from self._program_rows()
        for end in self._ends:
            yield from self._socket_rows(end)

    def _socket_rows(self, end: str) -> Iterator[Row]:
        twice = [each for each in self._sending[end].values() if each.milliseconds > 0]
        waited = [each.waited() for each in twice]
        if twice:
            busy = sum(each.busy for each in waited)
            # The kernel counts in ticks: that of a sender with little to send may be 0.
            window = sum(each.receive_window for each in waited) / busy if busy else 0.0
            buffer = sum(each.send_buffer for each in waited) / busy if busy else 0.0
            busiest = max(w.busy / each.milliseconds for w, each in zip(waited, twice, strict=True))
            yield f"socket:{end}", "busy", "%", 100 * min(1.0, busiest)
            yield f"socket:{end}", "receive_window_limited", "%", 100 * window
            yield f"socket:{end}", "send_buffer_limited", "%", 100 * buffer
        if self._unread[end]:
            yield f"socket:{end}", "receive_buffer_unread", "%", 100 * fmean(self._unread[end])

    def _program_rows(self) -> Iterator[Row]:
        """Of each program its busiest thread: how long it ran, and how long it would have run."""
        least = _LONG_ENOUGH * (self._looks[-1] - self._looks[0]) if self._looks else 0.0
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
