"""Verdicts from a topic to a sensor: what is told, what is not, and what a crash leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.control.client import ControlError, RefusedError
from hawser.ids.errors import IdsError, Unavailable
from hawser.ids.stream.apply import Applier
from hawser.ids.stream.reader import Message, Place
from hawser.ids.stream.verdict import LARGEST, parse

NOW_US = 1_780_000_000_000_000
FLOW: Mapping[str, Any] = {
    "schema": 1,
    "id": "8c1f00d2a94be617-12",
    "kind": "flow",
    "srcip": "203.0.113.9",
    "srcport": 40000,
    "dstip": "10.2.0.1",
    "dstport": 22,
    "proto": 6,
    "first_us": NOW_US - 1000,
    "last_us": NOW_US,
    "sensor": "b1",
    "score": 0.97,
    "model": "tree 3",
    "is_over": False,
}
SCAN: Mapping[str, Any] = {
    "schema": 1,
    "id": f"scan-2001:db8::1-{NOW_US}",
    "kind": "scan",
    "srcip": "2001:db8::1",
    "first_us": NOW_US,
    "last_us": NOW_US,
    "targets": 140,
    "sensors": 2,
}


def written(*verdicts: Mapping[str, Any]) -> list[bytes]:
    return [json.dumps(each).encode() for each in verdicts]


def test_a_flow_and_a_scan() -> None:
    flow, scan = map(parse, written(FLOW, SCAN))
    assert flow.order["target"] == {
        "source": "203.0.113.9",
        "destination": "10.2.0.1",
        "protocol": 6,
        "source_port": 40000,
        "destination_port": 22,
    }
    assert (flow.order["by"], flow.order["score"]) == ("model tree 3 on Spark", 0.97)
    assert scan.order == {
        "target": {"source": "2001:db8::1"},
        "by": "scan of 140 targets in a minute, seen by 2 sensors",
    }


def test_icmp_has_no_ports() -> None:
    (message,) = written({**FLOW, "proto": 1, "srcport": 0, "dstport": 0})
    assert set(parse(message).order["target"]) == {"source", "destination", "protocol"}


BAD: Sequence[bytes] = (
    b"",
    b"\xff",
    b"[]",
    b"[" * 100_000,
    b'"flow"',
    b"9" * 5000,
    b" " * (LARGEST + 1),
    *written(
        {**FLOW, "schema": 2},
        {**FLOW, "kind": "all"},
        {**FLOW, "srcip": "0.0.0.0/0"},
        {**FLOW, "srcip": 16843009},
        {**FLOW, "srcip": "224.0.0.1"},
        {**SCAN, "srcip": "::"},
        {**FLOW, "dstip": None},
        {**FLOW, "srcport": 65536},
        {**FLOW, "proto": True},
        {**FLOW, "score": float("nan")},
        {**FLOW, "score": 1.5},
        {**FLOW, "score": "1"},
        {**FLOW, "last_us": -1},
        {**FLOW, "last_us": 2**63},
        {**FLOW, "id": "x" * 101},
        {**FLOW, "model": ""},
        {**SCAN, "targets": -1},
        {**SCAN, "sensors": 1e300},
    ),
)


@pytest.mark.parametrize("message", BAD)
def test_what_is_no_verdict_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(message)


@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps).map(str.encode))
def test_anything_is_read_or_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(message)


@given(st.sampled_from(sorted(FLOW)), st.none() | st.integers() | st.floats() | st.text())
def test_any_field_is_read_or_refused(name: str, value: object) -> None:
    try:
        found = parse(*written({**FLOW, name: value}))
    except ValueError:
        return
    assert 0 <= found.order["score"] <= 1
    assert len(found.order["by"]) <= 200, "what a sensor takes"


def test_a_place_is_kept_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "place"
    assert Place.read(file) == Place()
    place = Place("one", {0: 17, 3: 4})
    place.write(file)
    assert Place.read(file) == place


OFFSETS = ("-1", "1.7", "1e400", "9" * 23, "true", '"1"')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"cluster": "x"}',
        '{"cluster": "x", "offsets": {"a": 1}}',
        *(f'{{"cluster": "x", "offsets": {{"0": {each}}}}}' for each in OFFSETS),
    ],
)
def test_a_file_that_is_none_of_a_place_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "place").write_text(text)
    with pytest.raises(IdsError, match="place"):
        Place.read(tmp_path / "place")


class Topic:
    """Messages of one partition, read as `Reader` does; ends the work behind the last one."""

    def __init__(self, messages: Sequence[bytes], stop: threading.Event) -> None:
        self._messages, self._stop, self._at = messages, stop, 0
        self.away = 0
        """How often it does not answer before it does."""

    def begin(self, place: Place, _since_us: int) -> Place:
        if self.away:
            self.away -= 1
            raise Unavailable("away")
        self._at = place.offsets.get(0, 0)
        return Place("one", {0: self._at})

    def next(self, _timeout_s: float) -> Message | None:
        if self._at >= len(self._messages):
            self._stop.set()
            return None
        self._at += 1
        return Message(0, self._at - 1, self._messages[self._at - 1])

    def end(self) -> None:
        """Nothing is open."""


class Sensor:
    """Answers as a sensor's control API does."""

    def __init__(self) -> None:
        self.taken: list[Mapping[str, Any]] = []
        self.answers: Iterator[int | Exception | None] = iter(())

    def verdict(self, order: Mapping[str, Any]) -> int | None:
        answer = next(self.answers, len(self.taken))
        if isinstance(answer, Exception):
            raise answer
        self.taken.append(order)
        return answer


class Site:
    """A sidecar, its topic and its sensor."""

    def __init__(self, folder: Path, *messages: Mapping[str, Any] | bytes) -> None:
        self.stop = threading.Event()
        raw = [m if isinstance(m, bytes) else written(m)[0] for m in messages]
        self.topic, self.sensor = Topic(raw, self.stop), Sensor()
        self.applier = self._applier(folder)
        self._folder = folder

    def _applier(self, folder: Path) -> Applier:
        made: Any = Applier
        applier: Applier = made(self.topic, "b1", self.sensor, folder / "place", 300.0)
        applier.clock_us = lambda: NOW_US + 1_000_000
        applier.status = folder / "status.json"
        return applier

    def run(self) -> dict[str, Any]:
        self.stop.clear()
        self.applier.run(self.stop)
        assert self.applier.status
        found: dict[str, Any] = json.loads(self.applier.status.read_text())
        return {name: value for name, value in found.items() if value}

    def again(self) -> dict[str, Any]:
        """What another start does."""
        self.applier = self._applier(self._folder)
        return self.run()


def test_each_verdict_is_taken_to_the_sensor_once(tmp_path: Path) -> None:
    site = Site(tmp_path, FLOW, SCAN)
    assert site.run() == {"blocked": 2, "is_connected": True}
    assert site.again() == {"is_connected": True}
    assert len(site.sensor.taken) == 2


def test_what_a_sensor_need_not_know(tmp_path: Path) -> None:
    old = {**SCAN, "last_us": NOW_US - 300_000_000}
    site = Site(tmp_path, {**FLOW, "sensor": "b2"}, {**FLOW, "is_over": True}, old, b"?", FLOW)
    counted = {"others": 1, "over": 1, "expired": 1, "malformed": 1, "blocked": 1}
    assert site.run() == {**counted, "is_connected": True}


def test_a_sensor_that_is_away_is_told_later(tmp_path: Path) -> None:
    site = Site(tmp_path, FLOW, SCAN)
    site.sensor.answers = iter([ControlError("away"), ControlError("away"), 7, None])
    assert site.run() == {"blocked": 1, "known": 1, "failures": 2, "is_connected": True}


def test_a_sensor_that_stays_away_does_not_hold_up_what_follows(tmp_path: Path) -> None:
    site = Site(tmp_path, FLOW, SCAN)
    times = iter([NOW_US, NOW_US, NOW_US + 400_000_000])
    site.applier.clock_us = lambda: next(times, NOW_US + 400_000_000)
    site.sensor.answers = iter([ControlError("away")])
    assert site.run() == {"expired": 2, "failures": 1, "is_connected": True}


def test_refusals_are_counted_by_reason(tmp_path: Path) -> None:
    site = Site(tmp_path, FLOW, SCAN, SCAN)
    site.sensor.answers = iter(
        [RefusedError("socket", 409, "allowed"), *[RefusedError("socket", 409, "many")] * 2]
    )
    assert site.run()["refused"] == {"allowed": 1, "many": 2}


def test_reasons_beyond_counting_are_counted_together(tmp_path: Path) -> None:
    site = Site(tmp_path, *[SCAN] * 30)
    site.sensor.answers = iter([RefusedError("socket", 409, f"reason {n}") for n in range(30)])
    refused = site.run()["refused"]
    assert (len(refused), refused["other reasons"]) == (21, 10)


def test_kafka_that_is_away_is_asked_again(tmp_path: Path) -> None:
    site = Site(tmp_path, FLOW)
    site.topic.away = 2
    assert site.run() == {"blocked": 1, "failures": 2, "is_connected": True}


def test_what_was_not_dealt_with_comes_again(tmp_path: Path) -> None:
    site = Site(tmp_path, FLOW, SCAN)
    site.sensor.answers = iter([1, ZeroDivisionError()])
    with pytest.raises(ZeroDivisionError):
        site.run()
    site.sensor.answers = iter(())
    assert site.again()["blocked"] == 1
    taken = [each["target"]["source"] for each in site.sensor.taken]
    assert taken == ["203.0.113.9", "2001:db8::1"]
