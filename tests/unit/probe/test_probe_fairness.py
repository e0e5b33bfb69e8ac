"""Fairness of flows that run side by side."""

from __future__ import annotations

import pytest

from hawser.probe.fairness import between
from hawser.spec.measurement import Iperf3, Measurement, Ping
from hawser.store.sample import Sample


def flow(**fields: object) -> Iperf3:
    given = {"probe": "iperf3", "from": "h1", "to": "h2", "duration": "10 s", "warmup": "2 s"}
    return Iperf3.model_validate(given | fields)


def series(name: str, value: float, seconds: range, direction: str = "forward") -> list[Sample]:
    return [
        Sample.model_validate(
            {"measurement": name, "metric": "goodput", "unit": "Mbit/s", "value": value}
            | {"direction": direction, "kind": "interval", "time": float(at)}
        )
        for at in seconds
    ]


STAGGERED: dict[str, Measurement] = {
    "one": flow(),
    "two": flow(**{"with": "one", "start": "5 s"}),
    "rtt": Ping.model_validate({"probe": "ping", "from": "h1", "to": "h2", "during": "one"}),
}


def test_only_the_time_that_all_have_in_common_counts() -> None:
    """one is measured from 2 s to 12 s, two from 7 s to 17 s: 7 s to 12 s count."""
    found = [
        *series("one", 20.0, range(3, 8)),  # alone
        *series("one", 10.0, range(8, 13)),
        *series("two", 10.0, range(3, 8)),  # by its own clock
        *series("two", 20.0, range(8, 13)),
    ]
    (sample,) = between(STAGGERED, list(STAGGERED), found)
    assert sample.value == pytest.approx(1.0)
    assert (sample.measurement, sample.subject) == ("one", "one + two")
    assert (sample.metric, sample.unit, sample.kind) == ("fairness", "ratio", "summary")


def test_flows_in_other_directions_are_no_rivals() -> None:
    both: dict[str, Measurement] = {
        "up": flow(),
        "down": flow(**{"with": "up", "reverse": True}),
    }
    found = [*series("up", 1.0, range(3, 13)), *series("down", 9.0, range(3, 13), "reverse")]
    assert between(both, list(both), found) == []


def test_flows_that_never_meet_have_none() -> None:
    apart: dict[str, Measurement] = {"one": flow(), "two": flow(**{"with": "one", "start": "30 s"})}
    found = [*series("one", 1.0, range(3, 13)), *series("two", 1.0, range(3, 13))]
    assert between(apart, list(apart), found) == []


def test_one_alone_has_none() -> None:
    assert between({"one": flow()}, ["one"], series("one", 1.0, range(3, 13))) == []
