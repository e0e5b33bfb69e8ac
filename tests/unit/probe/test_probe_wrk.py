"""What wrk's script prints, as samples."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe import http, wrk
from hawser.probe.base import ProbeError
from hawser.spec.measurement import Http

PRINTED = (
    '{"duration_us": 2000000, "requests": 5000, "bytes": 6000000, '
    '"latency_us": {"p50": 1500, "p90": 2500, "p99": 9000, "p999": 11000, "max": 12000}, '
    '"errors": {"connect": 0, "read": 1, "write": 0, "status": 2, "timeout": 0}}\n'
)


def spec(**fields: object) -> Http:
    return Http.model_validate({"probe": "http", "from": "h1", "to": "h2"} | fields)


def values(measured: Http, opened: int = 0) -> dict[str, float]:
    return {s.metric: s.value for s in http.samples("m", measured, wrk.parse(PRINTED), opened)}


def test_a_result_is_requests_latencies_and_errors() -> None:
    assert values(spec()) == {
        "requests": 2500,
        "http_latency_p50": 1.5,
        "http_latency_p90": 2.5,
        "http_latency_p99": 9,
        "http_latency_p999": 11,
        "http_errors": 3,
    }


def test_connections_are_those_that_the_target_took() -> None:
    assert values(spec(keepalive=False), opened=4990)["connections"] == 2495


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", PRINTED[:60], "unable to connect"])
def test_what_is_no_result_is_an_error(text: str) -> None:
    with pytest.raises(ProbeError, match="no readable result"):
        wrk.parse(text)


@given(st.text(max_size=200))
def test_no_text_does_anything_else(text: str) -> None:
    with contextlib.suppress(ProbeError):
        wrk.parse(text)


def test_an_open_loop_tells_what_it_did_not_send() -> None:
    printed = PRINTED.replace('"timeout": 0}}', '"timeout": 0}, "unsent": 7}')
    found = http.samples("m", spec(request_rate=3000), wrk.parse(printed), 0)
    assert {s.metric: s.value for s in found}["http_unsent"] == 7


def test_few_requests_have_no_thousandth() -> None:
    printed = wrk.parse(PRINTED.replace('"requests": 5000', '"requests": 999'))
    found = {s.metric for s in http.samples("m", spec(), printed, 0)}
    assert "http_latency_p999" not in found
    assert "http_latency_p99" in found


def test_the_script_of_an_open_loop_names_rate_and_threads() -> None:
    assert wrk.open_loop(0.5, 3).startswith("local RATE, THREADS = 0.5, 3\n")
