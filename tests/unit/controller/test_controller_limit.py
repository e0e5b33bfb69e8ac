"""Rate limits of callers."""

from __future__ import annotations

import dataclasses

import pytest
from controller_sample import Api
from hypothesis import given
from hypothesis import strategies as st

from hawser.controller.access import limit
from hawser.controller.access.limit import RateLimit
from hawser.controller.context import Context


@given(
    st.floats(0.1, 100),
    st.integers(1, 20),
    st.lists(st.floats(0, 3), min_size=1, max_size=60),
)
def test_no_caller_gets_more_than_rate_and_burst(
    per_s: float, burst: int, pauses: list[float]
) -> None:
    limited, now, taken = RateLimit(per_s, burst), 100.0, 0
    for pause in pauses:
        now += pause
        wait = limited.take("x", now)
        taken += wait == 0
        assert taken <= burst + per_s * (now - 100) + 1e-6
        if wait:
            assert limited.take("x", now + wait + 1e-6) == 0
            taken, now = taken + 1, now + wait + 1e-6


def test_callers_have_limits_of_their_own_and_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit, "_MOST_CALLERS", 3)
    limited = RateLimit(1, 1)
    assert [limited.take(each, 0) for each in "abc"] == [0, 0, 0]
    assert limited.take("c", 0.25) == 0.75
    assert limited.take("d", 0.25) == 0
    assert len(limited._buckets) == 3


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("local", "local"),
    ],
)
def test_who_has_a_network_is_one_source(address: str, source: str) -> None:
    assert limit.source_of(address) == source


def test_requests_beyond_the_limit_wait(api: Api, context: Context) -> None:
    few = dataclasses.replace(context, known=RateLimit(0.01, 3), unknown=RateLimit(0.01, 2))
    limited, stranger = Api(few), Api(few)
    limited.headers = api.headers
    assert [limited.call("GET", "/v1/me").status_code for _ in range(4)] == [200] * 3 + [429]
    assert int(limited.call("GET", "/v1/me").headers["Retry-After"]) > 1
    # Who is not authenticated, or guesses tokens, has a limit by address.
    assert [stranger.call("GET", "/v1/health").status_code for _ in range(3)] == [200, 200, 429]
    assert stranger.call("GET", "/v1/me").status_code == 429
    assert api.get("/v1/me")["name"] == "admin"
