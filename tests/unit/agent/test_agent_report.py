"""What a gateway measures in a second, and what it keeps of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.agent.backlog import Backlog, Kept
from hawser.agent.daemon import GatewayDaemon
from hawser.agent.measure import Interface, Reading, measure
from hawser.agent.reporter import Reporter, Sender
from hawser.control.client import ControlError
from hawser.control.link import MAX_SERIES, Series, from_gateway
from hawser.control.series import described, unpack


def status(sent: int = 0, rtt: float | None = 20.0) -> dict[str, Any]:
    path = {
        "member": 2,
        "state": "up",
        "rate_bps": 4e7,
        "rtt_ms": rtt,
        "jitter_ms": 1.5,
        "loss": 0.25,
        "queued_bytes": 100,
        "sent_bytes": sent,
        "share": 0.5,
    }
    groups = [
        {"id": 0, "queued_bytes": 10, "paths": [path]},
        {"id": 1, "queued_bytes": 20, "paths": []},
        {"id": 2, "queued_bytes": 40, "paths": []},
    ]
    return {"peers": [{"branch": "b2", "up": True, "groups": groups}]}


def counters(sent: int = 0, dropped: int = 0) -> dict[str, Any]:
    group = {"sent": {"bytes": sent}, "received": {"bytes": 2 * sent}, "drops": {"a": dropped}}
    return {
        "tun": {"drops": {"malformed": dropped}},
        "peers": [{"branch": "b2", "groups": [group | {"id": n} for n in range(3)]}],
        "switch": None,
    }


CLASSES = {("b2", 0): "I", ("b2", 1): "II", ("b2", 2): "II"}


def reading(time: float, total: int = 0) -> Reading:
    port = {"wa": Interface(sent_bytes=total, received_bytes=0, dropped=0)}
    return Reading(time, status(total), counters(total, total), CLASSES, port)


def test_states_and_rates() -> None:
    first = measure(None, reading(10.0, 1000))
    assert first == {
        "path/b2/0/2/up": 1,
        "path/b2/0/2/capacity": 4e7,
        "path/b2/0/2/rtt": 20,
        "path/b2/0/2/jitter": 1.5,
        "path/b2/0/2/loss": 0.25,
        "path/b2/0/2/queue": 100,
        "path/b2/0/2/share": 0.5,
        "class/b2/I/queue": 10,
        "class/b2/II/queue": 60,
    }
    found = measure(reading(10.0, 1000), reading(12.0, 1500))
    assert {name: value for name, value in found.items() if name not in first} == {
        "path/b2/0/2/rate": 2000,
        "class/b2/I/sent": 2000,
        "class/b2/I/received": 4000,
        "class/b2/I/dropped": 250,
        "class/b2/II/sent": 4000,
        "class/b2/II/received": 8000,
        "class/b2/II/dropped": 500,
        "port/wa/sent": 2000,
        "port/wa/received": 0,
        "port/wa/dropped": 0,
        "drop/tun/malformed/dropped": 250,
    }
    assert all(described(name) for name in found)


def test_counters_that_began_anew_give_no_rate() -> None:
    found = measure(reading(10.0, 1000), reading(11.0, 5))
    assert not [name for name in found if name.endswith(("/sent", "/rate"))]
    assert "port/wa/received" in found
    assert measure(reading(10.0), reading(10.0)) == measure(None, reading(10.0))


def test_what_is_not_known_is_left_out() -> None:
    found = measure(None, Reading(1.0, status(rtt=None), counters()))
    assert "path/b2/0/2/rtt" not in found
    assert found["class/b2/II/queue"] == 70  # without classes all are of Type II


class Daemon:
    """Answers as a daemon would."""

    config = None

    def __init__(self) -> None:
        self.answer: tuple[dict[str, Any], dict[str, Any]] | None = (status(), counters())

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.answer is None:
            raise ControlError("it does not answer")
        return self.answer


class Second:
    """A reporter and its clock."""

    def __init__(self) -> None:
        self.daemon, self.now = Daemon(), 0
        self.reporter = Reporter(
            cast("GatewayDaemon", self.daemon), lambda: self.now, dict, Path("/no")
        )

    def next(self) -> None:
        self.now += 1
        self.reporter.take(self.now, self.reporter.read())


def sent(sender: Sender) -> tuple[list[int], int]:
    """Sequence numbers of the reports that are sent, and how often names are."""
    numbers, named, count = [], 0, 0
    for frame in sender.frames():
        if isinstance(frame, bytes):
            numbers.append(unpack(frame, count).sequence)
        elif isinstance(message := from_gateway(frame), Series):
            named, count = named + 1, len(message.names)
    return numbers, named


def test_reports_are_sent_until_acknowledged() -> None:
    second = Second()
    for _ in range(3):
        second.next()
    first, again = Sender(second.reporter), Sender(second.reporter)
    assert sent(first) == ([0, 1, 2], 2)  # rates come with the second report
    assert sent(first) == ([], 0)
    assert sent(again) == ([0, 1, 2], 2)
    second.reporter.backlog.acknowledge(1)
    second.next()
    assert sent(Sender(second.reporter)) == ([2, 3], 1)
    second.reporter.backlog.acknowledge(7)  # whatever a controller says
    assert sent(Sender(second.reporter)) == ([], 0)


def test_a_daemon_that_does_not_answer_is_not_reported() -> None:
    second = Second()
    second.next()
    second.daemon.answer = None
    second.next()
    second.daemon.answer = (status(5), counters(5))
    second.next()
    assert sent(Sender(second.reporter))[0] == [0, 1]
    *_, last = second.reporter.backlog.after(-1)
    assert "path/b2/0/2/rate" not in last.names


def test_series_that_vanish_have_no_value() -> None:
    second = Second()
    second.next()
    second.next()
    second.daemon.answer = ({"peers": []}, counters())
    second.next()
    *_, last = second.reporter.backlog.after(-1)
    values = dict(zip(last.names, unpack(last.packed, len(last.names)).values, strict=True))
    assert math.isnan(values["path/b2/0/2/rtt"])


def test_there_are_never_too_many_series() -> None:
    second = Second()
    peers = [json.loads(json.dumps(status()["peers"][0])) for _ in range(1000)]
    for number, peer in enumerate(peers):
        peer["branch"] = f"b{number}"
    second.daemon.answer = ({"peers": peers}, counters())
    second.next()
    (kept,) = second.reporter.backlog.after(-1)
    assert len(kept.names) == MAX_SERIES


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 8))
def test_a_backlog_is_bounded_and_in_order(steps: list[int], most: int) -> None:
    backlog, sequence, acknowledged = Backlog(most, 1000), 0, -1
    for step in steps:
        if step:
            backlog.put(Kept(sequence, (), b"x" * 100 * step))
            sequence += 1
        else:
            acknowledged = max(acknowledged, sequence - 3)
            backlog.acknowledge(acknowledged)
        kept = [each.sequence for each in backlog.after(-1)]
        assert kept == list(range(sequence - len(kept), sequence))
        assert len(kept) <= most
        assert [each.sequence for each in backlog.after(sequence - 2)] == kept[-1:]
    assert backlog.dropped + len(backlog) + acknowledged + 1 >= sequence


def test_a_report_larger_than_the_backlog_is_dropped() -> None:
    backlog = Backlog(10, 50)
    backlog.put(Kept(0, (), b"x" * 100))
    assert (len(backlog), backlog.dropped) == (0, 1)
    with pytest.raises(StopIteration):
        next(backlog.after(-1))
