"""Measurements at the same time: none starts its traffic before all are ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from hawser.engine.rounds import Measure, together
from hawser.probe.base import ProbeError
from hawser.store.sample import Sample


def sample(name: str) -> Sample:
    return Sample(measurement=name, metric="rtt", unit="ms", value=1.0)


def test_one_alone_waits_for_nobody() -> None:
    def measure(ready: Callable[[], None]) -> list[Sample]:
        ready()
        return [sample("a")]

    assert together([measure]) == [sample("a")]


def test_all_begin_when_the_last_is_ready_and_samples_keep_their_order() -> None:
    prepared: list[float] = []
    begun: list[float] = []

    def slow(name: str, seconds: float) -> Measure:
        def measure(ready: Callable[[], None]) -> list[Sample]:
            time.sleep(seconds)
            prepared.append(time.monotonic())
            ready()
            begun.append(time.monotonic())
            ready()  # of no effect
            return [sample(name)]

        return measure

    found = together([slow("a", 0.2), slow("b", 0.0), slow("c", 0.1)])
    assert [each.measurement for each in found] == ["a", "b", "c"]
    assert min(begun) >= max(prepared)


def test_one_that_fails_is_told_and_the_others_do_not_wait_for_it() -> None:
    released = threading.Event()

    def fails(ready: Callable[[], None]) -> list[Sample]:
        raise ProbeError("its server did not start")

    def waits(ready: Callable[[], None]) -> list[Sample]:
        try:
            ready()
        finally:
            released.set()
        return []

    with pytest.raises(ProbeError, match="its server did not start"):
        together([waits, fails])
    assert released.wait(5)
