"""Measuring an idle path by trains of packets, which the gateway's daemon sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np

from hawser.control.client import ControlError
from hawser.control.link import Measure, Measured, Place
from hawser.control.model import TrainAnswer, TrainRequest
from hawser.stats.bandwidth import Arrivals, Limits, Search, Train

_FAILURES = 2
"""Trains in a row that fail, after which there is no estimate."""
_MOST = 500
"""Characters of an error."""
_LEAST_S = 0.05
"""Pause between two trains: the queue that the first one filled has to drain."""

Send = Callable[[TrainRequest], Awaitable[TrainAnswer]]


async def measure(
    asked: Measure,
    send: Send,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Measured:
    """Send trains on a path, spread over the time given, and say what they tell.

    Args:
        asked: the path, and the time.
        send: has the daemon send a train; raises `ControlError`.
        clock: seconds.
        sleep: waits.
    """
    search, failures, last_us = Search(Limits(asked.port, seconds=asked.seconds)), 0, 0
    end = clock() + asked.seconds
    while (train := search.next()) is not None and clock() + train.seconds < end:
        begin = clock()
        try:
            answer = await send(_request(asked, train))
            arrivals = _arrivals(train, answer)
            if answer.sent_us[0] < last_us:  # so did the clocks of both ends
                return Measured(place=asked.place, error="the connection began anew")
            last_us = answer.sent_us[0]
            search.take(arrivals)
            failures = 0
        except ControlError as error:
            search.lost(train)
            failures += 1
            if failures == _FAILURES:
                return Measured(place=asked.place, error=str(error)[:_MOST])
        pause = (end - begin) / (search.left + 1) - (clock() - begin)
        await sleep(max(_LEAST_S, pause))
    found = search.estimate()
    return Measured(
        place=asked.place,
        available=found.available,
        low=found.low,
        high=found.high,
        trains=found.trains,
    )


def _request(asked: Measure, train: Train) -> TrainRequest:
    place: Place = asked.place
    return TrainRequest(
        peer=place.peer,
        group=place.group,
        member=place.member,
        port_bps=round(asked.port),
        size=train.size,
        frames=train.frames,
        rate_bps=round(train.rate),
        fill_frames=train.fill_frames,
        fill_rate_bps=round(train.fill_rate),
    )


def _arrivals(train: Train, answer: TrainAnswer) -> Arrivals:
    """Give what came of a train, whose frames may be smaller than asked for.

    Raises:
        ControlError: nothing of it was sent, or the answer contradicts itself.
    """
    if not answer.sent_us or len(answer.sent_us) != len(answer.received_us):
        raise ControlError(f"found {len(answer.sent_us)} frames of a train of {train.frames}")
    received = [np.inf if at is None else at / 1e6 for at in answer.received_us]
    return Arrivals(
        replace(train, size=answer.size), np.array(answer.sent_us) / 1e6, np.array(received)
    )
