"""Measurements within others, and later than others."""

from __future__ import annotations

import re

import pytest

from hawser.spec import SpecErrors, load
from hawser.spec.measurement import Measurement, Ping, expected_seconds, fitted, offset, rounds
from hawser.spec.workflow import Workflow

HEAD = """\
hawser: 1
name: w
title: W
topology: {nodes: [h1, h2], links: {x: {ends: [h1.p, h2.p]}}}
measurements:
"""


def workflow(*lines: str) -> Workflow:
    text = HEAD + "".join(f"  {line}\n" for line in lines)
    return load("w.yaml", lambda _: text)


def measurements(*lines: str) -> dict[str, Measurement]:
    return workflow(*lines).variants[0].scenario.measurements


TCP = "tcp: {probe: iperf3, from: h1, to: h2, duration: 10 s, warmup: 3 s}"


def test_echoes_fill_the_measured_time() -> None:
    found = measurements(TCP, "rtt: {probe: ping, from: h1, to: h2, interval: 20 ms, during: tcp}")
    assert rounds(found) == [["tcp", "rtt"]]
    assert offset(found, "rtt") == 3
    ping = fitted(found, "rtt")
    assert isinstance(ping, Ping)
    assert ping.echoes == 499  # and one more, which is discarded: the last is sent at 9.98 s
    assert expected_seconds(found) == pytest.approx(13, abs=0.05)


def test_a_count_that_is_given_stays() -> None:
    found = measurements(TCP, "rtt: {probe: ping, from: h1, to: h2, count: 7, during: tcp}")
    assert fitted(found, "rtt") == found["rtt"]


def test_flows_join_one_by_one() -> None:
    found = measurements(
        TCP,
        TCP.replace("tcp:", "two:").replace("}", ", with: tcp, start: 5 s}"),
        "rtt: {probe: ping, from: h1, to: h2, count: 5, during: two, start: 1 s}",
    )
    assert rounds(found) == [["tcp", "two", "rtt"]]
    assert [offset(found, name) for name in found] == [0, 5, 9]
    assert expected_seconds(found) == 18


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("rtt: {probe: ping, from: h1, to: h2, during: nothing}", "during: found 'nothing'"),
        ("rtt: {probe: ping, from: h1, to: h2, during: rtt}", "during: found 'rtt'"),
        ("rtt: {probe: ping, from: h1, to: h2, during: tcp, with: tcp}", "one of both"),
        ("rtt: {probe: ping, from: h1, to: h2, count: 200, during: tcp}", "at most the 10 s"),
        ("rtt: {probe: ping, from: h1, to: h2, start: 1 s}", "needs `with` or `during`"),
        (
            "two: {probe: iperf3, from: h1, to: h2, duration: 10 s, during: tcp}",
            "found 12 s, expected at most the 10 s",
        ),
        ("rtt: {probe: ping, from: h1, to: h2, during: tcp, start: 10 s}", "during"),
        ("two: {probe: iperf3, from: h1, to: h2, interval: 50 ms}", "expected 0.1 s to 1 s"),
        ("web: {probe: http, from: h1, to: h2, request_rate: 0}", "request_rate"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(line: str, complaint: str) -> None:
    with pytest.raises(SpecErrors) as told:
        measurements(TCP, line)
    (error,) = told.value.errors
    assert complaint in f"{error.field}: {error.message}".replace("measurements.", "")
    assert error.line == 7
    assert re.search(r"^w\.yaml:7:", str(told.value))
