"""Measuring an idle path by trains, on simulated paths."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from harness.path_simulation import Case, SimulatedPath
from hawser.agent.trains import measure
from hawser.control.client import ControlError
from hawser.control.link import Measure, Measured, Place
from hawser.control.model import TrainAnswer, TrainRequest
from hawser.stats.bandwidth import Train

MBIT = 1e6
PLACE = Place(peer="b2", group=0, member=3)


class Daemon:
    """Sends trains on a simulated path; both ends count time from when a connection began."""

    def __init__(self, case: Case, began_us: int = 5_000_000) -> None:
        self._path = SimulatedPath(case, offset=0.02)
        self.now, self._began_us = 5.0, began_us
        self.bits = 0.0
        self.size: int | None = None
        """Bytes of the largest frame that the path takes."""

    async def send(self, request: TrainRequest) -> TrainAnswer:
        size = min(request.size, self.size or request.size)
        train = Train(
            size, request.rate_bps, request.frames, request.fill_rate_bps, request.fill_frames
        )
        self.bits += train.bits
        came = self._path.carry(self.now, train)
        received = [round(1e6 * at) if np.isfinite(at) else None for at in came.received]
        sent = tuple(self._began_us + round(1e6 * at) for at in came.sent)
        return TrainAnswer(size=size, sent_us=sent, received_us=tuple(received))

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def measured(self, port: float, seconds: float = 20.0) -> Measured:
        asked = Measure(place=PLACE, port=port, seconds=seconds)
        return asyncio.run(measure(asked, self.send, lambda: self.now, self.sleep))


PLAIN = Case(
    seed=1,
    port=40 * MBIT,
    rate=20 * MBIT,
    line=20 * MBIT,
    burst_s=0.0,
    queue_s=0.1,
    load=0.5,
    cross="constant",
    noise_s=1e-5,
    stalls=0,
)


@pytest.mark.parametrize(
    "case",
    [
        PLAIN,
        replace(PLAIN, load=0.0),
        replace(PLAIN, rate=40 * MBIT, line=40 * MBIT, load=0.0),
        replace(PLAIN, load=0.8),
    ],
)
def test_a_third_of_a_minutes_trains_tell_what_is_available(case: Case) -> None:
    daemon, truth = Daemon(case), case.rate * (1 - case.load)
    found = daemon.measured(case.port)
    assert found.error == ""
    assert found.available == pytest.approx(truth, rel=0.15)
    assert found.low <= truth * 1.02
    assert found.trains >= 3
    assert found.high - found.low <= 0.5 * found.available
    assert daemon.bits <= 0.01 * case.port * 20
    assert daemon.now <= 5 + 20 + 1


def test_smaller_frames_than_asked_for_are_counted_as_they_were_sent() -> None:
    daemon = Daemon(PLAIN)
    daemon.size = 1300
    assert daemon.measured(PLAIN.port).available == pytest.approx(10 * MBIT, rel=0.15)


def test_a_connection_that_begins_anew_ends_the_measurement() -> None:
    """The clocks of both ends begin anew with it."""
    daemon = Daemon(PLAIN)
    send, count = daemon.send, 0

    async def interrupted(request: TrainRequest) -> TrainAnswer:
        nonlocal count
        count += 1
        answer = await send(request)
        if count < 3:
            return answer
        return answer.model_copy(update={"sent_us": tuple(at % 1000 for at in answer.sent_us)})

    daemon.send = interrupted  # type: ignore[method-assign]
    assert daemon.measured(PLAIN.port).error == "the connection began anew"


@pytest.mark.parametrize(("sent", "received"), [((), ()), ((1, 2), (3,))])
def test_an_answer_that_contradicts_itself_is_a_failure(
    sent: tuple[int, ...], received: tuple[int, ...]
) -> None:
    async def answer(_: TrainRequest) -> TrainAnswer:
        return TrainAnswer(size=1500, sent_us=sent, received_us=received)

    daemon = Daemon(PLAIN)
    daemon.send = answer  # type: ignore[method-assign]
    assert f"found {len(sent)} frames" in daemon.measured(PLAIN.port).error


def test_a_path_that_fails_is_given_up_after_two_trains() -> None:
    asked: list[TrainRequest] = []

    async def fail(request: TrainRequest) -> TrainAnswer:
        asked.append(request)
        raise ControlError("409: packets wait for a peer")

    daemon = Daemon(PLAIN)
    daemon.send = fail  # type: ignore[method-assign]
    found = daemon.measured(PLAIN.port)
    assert found == Measured(place=PLACE, error="409: packets wait for a peer")
    assert len(asked) == 2
