"""A train of packets, and when they were sent and received."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_SPAN_S: Final = 0.01
_FEWEST: Final = 4
"""Time, and frames, that must arrive impossibly fast for a train to be disturbed: the error of
timestamps is below 0.1 ms, that of a thread which did not get the CPU above 3 ms."""
_IMPOSSIBLE: Final = 3.0
"""Times the port's rate at which nothing arrives that a queue held back."""


@dataclass(frozen=True)
class Train:
    """Frames in two streams that begin together: a fill that builds a queue, and a body."""

    size: int
    """Of a frame, bytes, from the Ethernet header to the end of the payload."""
    rate: float
    """Of the body, bit/s."""
    frames: int
    """Of the body."""
    fill_rate: float
    """Of the fill, bit/s, in addition to the body."""
    fill_frames: int

    @property
    def bits(self) -> float:
        """Everything that is sent."""
        return 8.0 * self.size * (self.frames + self.fill_frames)

    @property
    def fill_s(self) -> float:
        """Duration of the fill, seconds."""
        return 8 * self.size * self.fill_frames / self.fill_rate

    @property
    def seconds(self) -> float:
        """Duration of the train."""
        return 8 * self.size * self.frames / self.rate

    def times(self) -> Values:
        """When each frame is due, seconds from the first, in ascending order."""
        bits = 8 * self.size
        body = np.arange(self.frames) * (bits / self.rate)
        fill = np.arange(self.fill_frames) * (bits / self.fill_rate)
        return np.sort(np.concatenate([body, fill]))


@dataclass(frozen=True)
class Arrivals:
    """What came of a train, by frame in the order of sending. Clocks may have any offset."""

    train: Train
    sent: Values
    """Seconds. Of a frame that did not come, when it was due."""
    received: Values
    """Seconds; infinite for a frame that did not come."""

    @property
    def came(self) -> NDArray[np.bool_]:
        """Which frames came."""
        return np.isfinite(self.received)

    def delays(self) -> Values:
        """One-way delays plus the offset of the clocks, seconds; infinite for lost frames."""
        delays: Values = self.received - self.sent
        return delays


def is_disturbed(arrivals: Arrivals, port: float) -> bool:
    """Tell whether frames came faster than any link sends them: something held them up.

    That is a receiver that stood still, or a machine on the way. The train says nothing then.

    Args:
        arrivals: of one train.
        port: declared rate of the sending port, bit/s.
    """
    came = arrivals.came
    sent, received = arrivals.sent[came], arrivals.received[came]
    first = np.arange(len(sent))
    last = np.searchsorted(sent, sent + _SPAN_S)
    whole = (last < len(sent)) & (last - first >= _FEWEST)
    first, last = first[whole], last[whole]
    bits = 8.0 * arrivals.train.size * (last - first)
    fastest = _IMPOSSIBLE * port * np.maximum(received[last] - received[first], 1e-9)
    return bool(np.any(bits > fastest))
