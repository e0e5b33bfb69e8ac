"""Which train to send next: from nothing known to as many as the traffic allowed permits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hawser.stats.bandwidth.estimate import Estimate, Fit, Reading, estimate, fit, read
from hawser.stats.bandwidth.train import Arrivals, Train, is_disturbed

_TRAINS: Final = 12
"""Trains of one estimate: fewer make the interval wide, more spend the traffic on fills."""
_FILL: Final = 2.0
"""Rate at which the queue is filled, in terms of the port's rate."""
_FIRST_S: Final = 0.01
"""Duration of the first fill."""
_LONGEST_FILL_S: Final = 5.0
"""Duration of a fill at most. If that builds no queue, the port is faster than declared."""
_BACKLOG_S: Final = 0.01
_BACKLOG_LEAST_S: Final = 0.0005
"""Queue that is filled at first, and at least: ten times the error of a timestamp."""
_MARGIN: Final = 1.1
"""Rate of the body in terms of the estimate so far: so that the queue rather grows."""
_LONGEST_S: Final = 1.0
"""Duration of a body at most."""
_FEWEST: Final = 6
"""Frames of a body at least."""
_FRAME: Final = 1514
_SMALLEST: Final = 200
_FRAME_S: Final = 0.001
"""Frames take at most so long at the port's rate, if they are not smaller than the smallest."""
_SURE: Final = 4
"""Trains after which the capacity that was found bounds the traffic."""
_FRAMES: Final = 50_000
"""Frames of a train at most: what a capture buffers."""
_TRIES: Final = 24
"""Trains that may be sent in all."""


@dataclass(frozen=True)
class Limits:
    """What an estimate may use."""

    port: float
    """Declared rate of the sending port, bit/s. No path through it has more."""
    share: float = 0.01
    """Of the port's bits during `seconds` that trains may take."""
    seconds: float = 60.0
    """Duration of the measurement."""
    largest: int = _FRAME
    """Largest frame that the path carries, bytes."""


class Search:
    """Chooses trains and takes what came of them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        wanted = limits.port * _FRAME_S / 8
        self._size = round(min(limits.largest, max(_SMALLEST, wanted)))
        self._least = math.inf
        self._full = math.inf
        """Longest delay of a train that lost frames, with the offset of the clocks."""
        self._fill_s = _FIRST_S
        self._short_s, self._long_s = 0.0, math.inf
        """Fills that built no queue, and that overflowed it."""
        self._taken: list[Arrivals] = []
        self._found: Fit | None = None
        self.spent = 0.0
        """Bits sent so far."""
        self.sent = 0
        """Trains sent so far."""
        self.disturbed = 0
        """Trains that said nothing because something held frames up."""

    @property
    def budget(self) -> float:
        """Bits that may be sent in all: a share of the port, or of the path if that is slower."""
        known = self._limits.port
        if self._found is not None and len(self._taken) >= _SURE:
            known = min(known, self._found.capacity)
        return self._limits.share * self._limits.seconds * known

    @property
    def left(self) -> int:
        """Trains still to send, about."""
        return max(1, _TRAINS - len(self._taken))

    def next(self) -> Train | None:
        """Choose the next train; None if nothing more may be sent."""
        left, port = self.budget - self.spent, self._limits.port
        known = self._found or Fit(port / 2, port)
        bits = 8 * self._size
        least = _FEWEST * bits / _LONGEST_S
        rate = max(_MARGIN * max(known.available, 0.04 * known.capacity), least)
        fill_rate = max(_FILL * port - rate, 0.8 * port)
        fill = self._fill_s * _FILL * port
        seconds = 1.5 * self._backlog
        if self._taken:
            trains = max(1, min(self.left, int(0.5 * left / fill)))
            seconds = min(max((0.95 * left / trains - fill) / rate, self._backlog), _LONGEST_S)
        fill_frames = max(3, math.ceil(self._fill_s * fill_rate / bits))
        body_s = seconds + fill_frames * bits / fill_rate
        frames = min(
            max(_FEWEST, math.ceil(body_s * rate / bits)), max(_FEWEST, _FRAMES - fill_frames)
        )
        train = Train(self._size, rate, frames, fill_rate, fill_frames)
        allowed = train.bits <= left and train.frames + train.fill_frames <= _FRAMES
        return train if allowed and self.sent < _TRIES else None

    @property
    def _longest(self) -> float:
        """Length of the queue, seconds; infinite while nothing was lost."""
        return max(self._full - self._least, _BACKLOG_LEAST_S)

    @property
    def _backlog(self) -> float:
        """Queue that a fill is to build, seconds: at most half of what does not overflow."""
        wanted = max(_BACKLOG_S, 3 * 8 * _FRAME / self._limits.port)
        return max(min(wanted, 0.4 * self._longest), _BACKLOG_LEAST_S)

    def take(self, arrivals: Arrivals) -> None:
        """Take what came of the train that was chosen last."""
        self.lost(arrivals.train)
        if not arrivals.came.any():
            return
        delays = arrivals.delays()
        self._least = min(self._least, float(delays.min()))
        if is_disturbed(arrivals, self._limits.port):
            self.disturbed += 1
            return
        if not arrivals.came.all():
            self._full = min(self._full, float(delays[arrivals.came].max()))
        reading = self._read(arrivals)
        if reading is not None and (self._taken or self._is_filled(reading)):
            self._taken.append(arrivals)
            self._found = fit(self._readings(), self._limits.port)
        self._correct_fill(arrivals, reading)

    def lost(self, train: Train) -> None:
        """Count a train of which nothing is known."""
        self.sent += 1
        self.spent += train.bits

    def estimate(self) -> Estimate:
        """Estimate from all trains so far."""
        return estimate(self._readings(), self._limits.port)

    def _read(self, arrivals: Arrivals) -> Reading | None:
        return read(arrivals, self._least, self._backlog, self._longest)

    def _readings(self) -> list[Reading]:
        return [reading for reading in map(self._read, self._taken) if reading is not None]

    def _is_filled(self, reading: Reading) -> bool:
        """Tell whether the queue lasted: otherwise only the line was full, and not the shaper."""
        lasted = reading.body.seconds >= 0.75 * self._backlog
        return reading.backlog < math.inf and (lasted or not reading.emptied)

    def _correct_fill(self, arrivals: Arrivals, reading: Reading | None) -> None:
        """Approach a fill that builds the backlog, and neither nothing nor an overflow."""
        train, delays = arrivals.train, arrivals.delays() - self._least
        filled = delays[arrivals.sent - arrivals.sent[0] > train.fill_s]
        backlog = float(filled[0]) if len(filled) else math.inf
        if delays[0] > self._backlog:
            return  # others had filled it
        if backlog >= 0.8 * self._longest:
            self._long_s = min(self._long_s, self._fill_s)
            self._fill_s = math.sqrt(max(self._short_s, self._fill_s / 4) * self._long_s)
        elif not self._taken:
            self._short_s = max(self._short_s, self._fill_s)
            self._fill_s = min(2 * self._fill_s, math.sqrt(self._short_s * self._long_s))
        elif backlog > 2 * self._backlog:
            self._fill_s *= 0.85
        elif backlog < self._backlog:
            self._fill_s = min(1.15 * self._fill_s, self._long_s)
        one_frame = 8 * self._size / (_FILL * self._limits.port)
        self._fill_s = min(max(self._fill_s, one_frame), _LONGEST_FILL_S)
