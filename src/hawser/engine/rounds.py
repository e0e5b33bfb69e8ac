"""Concurrent measurements, each in a thread, whose traffic starts together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from hawser.probe.base import ProbeError
from hawser.store.sample import Sample

READY_WITHIN = 30.0
"""Longest time between the first measurement that is ready for traffic and the last, seconds."""

Measure = Callable[[Callable[[], None]], list[Sample]]
"""Runs one measurement; calls its argument when traffic is about to start."""


def together(measures: Sequence[Measure]) -> list[Sample]:
    """Run measurements at the same time, and give their samples in the order given.

    If one fails, the others are not waited for; they end with the lab.

    Raises:
        ProbeError: one of them failed, or was not ready in time.
        NodeError: likewise.
    """
    if len(measures) == 1:
        return measures[0](lambda: None)
    start = threading.Barrier(len(measures))
    with _threads(len(measures)) as pool:
        running = [pool.submit(_one, measure, start) for measure in measures]
        failed = _failures(running)
        if failed:
            start.abort()
            raise min(failed, key=lambda error: isinstance(error, _NotReadyError))
        return [sample for each in running for sample in each.result()]


def _failures(running: Sequence[Future[list[Sample]]]) -> list[BaseException]:
    """Wait until all have ended or one has failed.

    Python handles a signal when its main thread goes on, and one that comes just before it sleeps
    does not wake it. So it sleeps a second at most.
    """
    while True:
        done, left = wait(running, timeout=1, return_when=FIRST_EXCEPTION)
        failed = [error for each in done if (error := each.exception()) is not None]
        if failed or not left:
            return failed


class _NotReadyError(ProbeError):
    """Another measurement failed or took too long."""


def _one(measure: Measure, start: threading.Barrier) -> list[Sample]:
    waited = False

    def ready() -> None:
        nonlocal waited
        if waited:
            return
        waited = True
        try:
            start.wait(READY_WITHIN)
        except threading.BrokenBarrierError:
            raise _NotReadyError("the concurrent measurements were not ready in time") from None

    try:
        return measure(ready)
    except BaseException:
        start.abort()
        raise


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(count, thread_name_prefix="measure")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
