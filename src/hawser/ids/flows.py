"""Records put together: which belong to one flow, and what each flow was. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from hawser.ids.features import EARLY_PACKETS, EARLY_US, IDLE_US, WINDOW_US
from hawser.ids.records import Bools, Floats, Integers, Records

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class Flows:
    """Flows of n records. Arrays of flows have m rows."""

    of_record: Integers
    """(n,) Number of each record's flow."""
    first_row: Integers
    """(m,) A record of each flow: its earliest."""
    first_us: Integers
    """(m,) Time of the first packet, microseconds since 1970."""
    last_us: Integers
    """(m,) Time of the last packet."""
    volume: Floats
    """(m,) Bytes in both directions."""
    seen: Floats
    """(n,) Bytes of the flow until each record's end."""
    decided_us: Integers
    """(n,) When a detector can know each record: windows end 2 s after they began, idle flows
    after 600 s of silence, and flows of few packets are old enough after 50 ms."""

    def __len__(self) -> int:
        return len(self.first_row)

    def is_short(self) -> Bools:
        """(m,) Say which flows are shorter than the published window."""
        return self.last_us - self.first_us < WINDOW_US


def group(records: Records) -> Flows:
    """Put the records of each flow together.

    Records of one conversation are ordered by time; a last record ends a flow, the next begins
    another. Nothing is needed of the order in which records are given.
    """
    keys = records.keys().dictionary_encode().indices.to_numpy().astype(np.int64)
    first, last, is_last = (
        records.integers("first_us"),
        records.integers("last_us"),
        records.is_last(),
    )
    order = np.lexsort((is_last, last, keys))
    begins = np.ones(len(records), bool)
    begins[1:] = (keys[order][1:] != keys[order][:-1]) | is_last[order][:-1]
    number = np.cumsum(begins) - 1
    of_record = np.empty(len(records), np.int64)
    of_record[order] = number
    starts = np.flatnonzero(begins)
    seen = _seen(records, order, starts, number)
    return Flows(
        of_record=of_record,
        first_row=order[starts],
        first_us=_reduced(np.minimum, first[order], starts),
        last_us=_reduced(np.maximum, last[order], starts),
        volume=_reduced(np.maximum, seen[order], starts),
        seen=seen,
        decided_us=_decided(records, first, last),
    )


def _seen(records: Records, order: Integers, starts: Integers, number: Integers) -> Floats:
    """Bytes until each record: windows add up, all other records count from the beginning."""
    volume = records.volume()[order]
    is_window = records.is_window()[order]
    running = np.cumsum(np.where(is_window, volume, 0.0))
    before = np.concatenate(([0.0], running))[starts] if len(starts) else np.zeros(0)
    seen = np.empty(len(order))
    seen[order] = np.where(is_window, running - before[number], volume)
    return seen


def _reduced(function: np.ufunc, values: NDArray[_T], starts: Integers) -> NDArray[_T]:
    return function.reduceat(values, starts) if len(starts) else values


def _decided(records: Records, first: Integers, last: Integers) -> Integers:
    is_idle = pc.equal(records.rows["reason"], "idle").to_numpy()
    decided = np.where(records.is_window(), np.maximum(last, first + WINDOW_US), last)
    is_early = pc.equal(records.rows["reason"], "early").to_numpy()
    is_by_age = is_early & (records.packets() < EARLY_PACKETS)
    decided = np.where(is_by_age, np.maximum(last, first + EARLY_US), decided)
    return np.where(is_idle, last + IDLE_US, decided).astype(np.int64)


def drawn(records: Records, flows: Flows, share: float, seed: int) -> Bools:
    """(m,) Draw a share of the flows, 0 to 1: the same ones whenever their records are read.

    A flow is drawn by the hash of its tuple, first packet and the seed, so a model's file says with
    two numbers which flows it was trained on.
    """
    keys = records.keys().take(flows.first_row).to_pylist()
    limit = int(share * (1 << 64))
    return np.array(
        [
            _hash(f"{seed}|{key}|{first}") < limit
            for key, first in zip(keys, flows.first_us, strict=True)
        ],
        bool,
    )


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def highest(flows: Flows, scores: Floats) -> Floats:
    """(m,) Highest score of any record of each flow; `scores` has one a record."""
    found = np.full(len(flows), -np.inf)
    np.maximum.at(found, flows.of_record, scores)
    return found
