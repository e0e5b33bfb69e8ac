"""Frame rates through a row of nodes: trials, and the search for the highest rate without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.bench import SampleError
from harness.obtain import hawserd
from peers.chain import Row
from peers.generators import CORE

TRIAL_S = 0.3
_CHECK = 4
"""Length of the frame check sequence, which sizes count, bytes."""
_HEADER = 24
"""Length of the network service header (MD type 1) that encapsulation adds, bytes."""
_BEYOND, _BELOW = 1.5, 0.8
"""Upper bound and start of the search, as multiples of the rate received at maximum load."""
_DOWN = 0.5
"""Factor to the next rate while every rate so far had loss."""
_WIDTH = 1.04
"""The search ends when the lowest rate with loss is within this factor of the highest without."""
_TRIALS = 2
"""Trials of a rate at most, until one passes."""
_WARMING = {"frames_per_s": 1_000}
"""Load before a search, which warms the caches for the flow."""
_WARMING_S = 0.2
_SLOWEST, _FASTEST = 1_000, 8_000_000
"""Bounds of the search, frames/s: every chain here is in between."""


@dataclass(frozen=True)
class Load:
    """Frames that are sent.

    Attributes:
        size: frame size with the frame check sequence, before a header is added, bytes.
        header: whether they have a network service header.
        flows: flows, by source port, which are used in turn.
    """

    size: int
    header: bool = True
    flows: int = 1


class Trial:
    """Received rate, frames/s, and loss ratio."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        received = result["received"]
        self.received = float(received["unique"] / received["seconds"])
        self.loss = result["lost"] / (result["lost"] + received["unique"])


def overloaded(row: Row, load: Load) -> Trial:
    """Send frames as fast as can be, after a few that warm the caches."""
    _trial(row, load, _WARMING, _WARMING_S)
    return _trial(row, load, "max")


def highest(row: Row, load: Load, first: Trial, tolerated: float = 0.0) -> float:
    """Highest rate, frames/s, with a loss ratio of at most `tolerated`.

    A rate with more loss is tried again, since loss with another cause rarely recurs (ETSI GS
    NFV-TST 009 section 12.3.3, binary search with loss verification).

    Args:
        row: the chain.
        load: frames.
        first: a trial at maximum load.
        tolerated: allowed loss ratio.

    Raises:
        SampleError: frames are lost at every rate.
    """
    if first.loss <= tolerated:
        return first.received
    low, high, rate = 0.0, first.received * _BEYOND, first.received * _BELOW
    while rate > _SLOWEST and high > low * _WIDTH:
        trials = (_trial(row, load, {"frames_per_s": rate}) for _ in range(_TRIALS))
        passed = next((trial for trial in trials if trial.loss <= tolerated), None)
        if passed:
            low = passed.received
        else:
            high = rate
        rate = (low * high) ** 0.5 if low else high * _DOWN
    if low == 0.0:
        raise SampleError(f"frames are lost at every rate from {_SLOWEST} a second on")
    return low


def _trial(row: Row, load: Load, rate: object, seconds: float = TRIAL_S) -> Trial:
    per_second = rate["frames_per_s"] if isinstance(rate, dict) else _FASTEST / 2
    frames = max(200, int(per_second * seconds))
    file = row.gen.directory / "load.json"
    file.write_text(json.dumps(_config(row, load, rate, frames)))
    command = [hawserd().path, "load", "--config", str(file)]
    return Trial(json.loads(row.gen.run(command, timeout=60).splitlines()[-1]))


def _config(row: Row, load: Load, rate: object, frames: int) -> dict[str, Any]:
    header = {"outer": {"nsh": {"spi": 1, "si": 255}}} if load.header else {}
    stream = {
        "name": "s",
        "ethernet": {"destination": row.links[0].into.mac},
        **header,
        "source": {"first": "198.18.0.1"},
        "target": {"first": "198.18.99.2"},
        "source_port": {"first": 10000, "count": load.flows},
        "target_port": {"first": 10500},
        "sizes": {"fixed": load.size - _CHECK + (_HEADER if load.header else 0)},
        "rate": rate,
        "amount": {"frames": frames},
    }
    gen, sink = row.links[0].out, row.links[-1].into
    return {
        "version": 1,
        "send": {
            "port": {"interface": gen.device, "netns": gen.namespace.name},
            "cpu": CORE,
            "traffic": {"streams": [stream]},
        },
        "receive": {"port": {"interface": sink.device, "netns": sink.namespace.name}},
    }
