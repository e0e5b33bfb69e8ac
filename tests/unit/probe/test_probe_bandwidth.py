"""Captures of trains, and what the probe makes of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe.bandwidth.capture import BODY, FILL, Frame, arrivals, frames
from hawser.probe.bandwidth.passive import is_limit
from hawser.probe.bandwidth.samples import samples
from hawser.probe.base import ProbeError
from hawser.stats.bandwidth import Estimate, Train

TRAIN = Train(size=1250, rate=10e6, frames=4, fill_rate=20e6, fill_frames=2)
"""A frame of the body every millisecond, of the fill every half."""
RUN = 7


def header(order: str = "<") -> bytes:
    return struct.pack(f"{order}IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 1)


def record(frame: Frame, run: int = RUN, family: int = 4, order: str = "<") -> bytes:
    payload = b"HW" + struct.pack(
        ">QQ", frame.flow << 40 | frame.sent_ns, run << 48 | frame.sequence
    )
    kind, headers = (b"\x08\x00", 28) if family == 4 else (b"\x86\xdd", 48)
    data = bytes(12) + kind + bytes(headers) + payload
    seconds, part = divmod(frame.received_ns, 10**9)
    return struct.pack(f"{order}IIII", seconds, part, len(data), 1250) + data


def file(found: Sequence[Frame], family: int = 4, order: str = "<") -> bytes:
    return header(order) + b"".join(record(f, family=family, order=order) for f in found)


def body(*numbers: int, start: int = 0) -> list[Frame]:
    each = 1_000_000
    return [Frame(BODY, n, (start + n * each) % 2**40, 10**18 + n * each) for n in numbers]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("order", ["<", ">"])
def test_frames_are_read(family: int, order: str) -> None:
    wanted = [*body(0, 1), Frame(FILL, 0, 5, 10**18 + 9)]
    assert list(frames(file(wanted, family, order), RUN)) == wanted


def test_frames_of_another_run_are_left_out() -> None:
    assert list(frames(file(body(0, 1)), RUN + 1)) == []


@given(st.binary(max_size=300), st.integers(0, 200))
def test_no_capture_is_too_strange(tail: bytes, cut: int) -> None:
    list(frames(tail, RUN))
    list(frames(header() + tail, RUN))
    found = list(frames((file(body(0, 1, 2)) + tail)[:cut], RUN))
    assert found == body(0, 1, 2)[: len(found)]


def test_lost_frames_stand_where_they_were_due() -> None:
    found = arrivals(TRAIN, iter(body(1, 3)), {BODY: 5, FILL: 2})
    assert found.sent * 1e3 == pytest.approx([-1, 0, 0, 0.5, 1, 2, 3])
    assert list(found.came) == [False, True, False, False, False, True, False]


def test_the_time_of_sending_may_wrap() -> None:
    found = arrivals(TRAIN, iter(body(0, 1, 2, 3, start=2**40 - 1_500_000)), {BODY: 4, FILL: 0})
    assert found.sent * 1e3 == pytest.approx([0, 1, 2, 3])
    assert found.delays() == pytest.approx(np.zeros(4))


def test_a_duplicate_counts_when_it_first_came() -> None:
    first, second = body(0, 1)
    late = Frame(BODY, 0, first.sent_ns, first.received_ns + 10**6)
    found = arrivals(TRAIN, iter([first, second, late]), {BODY: 2, FILL: 0})
    assert found.delays() == pytest.approx(np.zeros(2))


def test_frames_that_were_never_sent_do_not_count() -> None:
    found = arrivals(TRAIN, iter(body(0, 1, 2**40)), {BODY: 2, FILL: 0})
    assert len(found.sent) == 2


def test_a_train_of_which_nothing_came_is_an_error() -> None:
    with pytest.raises(ProbeError, match="nothing"):
        arrivals(TRAIN, iter(body(0)), {BODY: 4, FILL: 2})


FULL = {"rate_bps": 10e6, "sent_bytes": 1e6, "waiting": 5000.0}


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({}, True),
        ({"sent_bytes": 0.4e6}, False),
        ({"waiting": 100.0}, False),
        ({"rate_bps": 0.0}, False),
        ({"rate_bps": 30e6}, False),
    ],
)
def test_a_path_limits_its_traffic(change: dict[str, float], *, limit: bool) -> None:
    before = {**FULL, "sent_bytes": 0.0}
    assert is_limit(before, {**FULL, **change}, 1.0) is limit


def test_a_path_that_was_not_there_is_not_yet_known() -> None:
    assert not is_limit(None, FULL, 1.0)


def test_an_estimate_of_nothing_says_so() -> None:
    found = {each.metric: each.value for each in samples("m", Estimate(0.0, 0.0, 1e7, None, 0), {})}
    assert found["estimate_error"] == 1000
    assert "path_capacity" not in found
