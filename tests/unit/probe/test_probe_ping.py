"""What ping prints, as samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawser.probe.base import ProbeError
from hawser.probe.ping import median, parse, percentile, samples, within

HEAD = "PING 10.2.0.2 (10.2.0.2) from 10.1.0.2 : 56(84) bytes of data.\n"


def output(times: dict[int, float], sent: int, extra: str = "", received: int | None = None) -> str:
    lines = [
        f"[17000000{sequence:02d}.500000] 64 bytes from 10.2.0.2: icmp_seq={sequence} ttl=62"
        f" time={ms} ms\n"
        for sequence, ms in times.items()
    ]
    count = len(times) if received is None else received
    return (
        f"{HEAD}{''.join(lines)}{extra}\n--- 10.2.0.2 ping statistics ---\n"
        f"{sent} packets transmitted, {count} received, 0% packet loss, time 168ms\n"
        "rtt min/avg/max/mdev = 0.025/0.076/0.222/0.083 ms\n"
    )


def summary(text: str) -> dict[str, float]:
    return {s.metric: s.value for s in samples("rtt", parse(text)) if s.kind == "summary"}


def test_the_first_echo_pays_for_address_resolution_and_is_discarded() -> None:
    found = summary(output({1: 900.0, 2: 1.0, 3: 3.0, 4: 2.0}, 4))
    assert found == {"rtt": 2.0, "rtt_min": 1.0, "rtt_p99": 3.0, "ping_loss": 0.0}


def test_lost_echoes_are_counted() -> None:
    found = summary(output({1: 1.0, 2: 1.0, 5: 1.0}, 5))
    assert found["ping_loss"] == 50.0


def test_no_reply_gives_loss_and_no_time() -> None:
    assert summary(output({}, 3)) == {"ping_loss": 100.0}


def test_a_duplicate_counts_once() -> None:
    again = "[1700000002.6] 64 bytes from 10.2.0.2: icmp_seq=2 ttl=62 time=9.0 ms (DUP!)\n"
    text = output({1: 1.0, 2: 1.0}, 2, again).replace("2 received,", "2 received, +1 duplicates,")
    assert summary(text) == {"rtt": 1.0, "rtt_min": 1.0, "rtt_p99": 1.0, "ping_loss": 0.0}


def test_errors_of_routers_are_no_replies() -> None:
    error = "From 10.1.0.1 icmp_seq=2 Destination Host Unreachable\n"
    assert summary(output({1: 1.0}, 2, error)) == {"ping_loss": 100.0}


def test_echoes_are_the_time_series() -> None:
    rows = [s for s in samples("rtt", parse(output({1: 1, 2: 2, 3: 3}, 3))) if s.time is not None]
    assert [(row.time, row.value) for row in rows] == [(1.0, 2.0), (2.0, 3.0)]


@pytest.mark.parametrize(
    "text",
    ["", HEAD, output({1: 1.0}, 2, received=2), output({1: 1.0, 2: 1.0}, 1)],
    ids=[
        "nothing",
        "cut off",
        "a reply that was counted is not listed",
        "more replies than echoes",
    ],
)
def test_what_cannot_be_trusted_is_an_error(text: str) -> None:
    with pytest.raises(ProbeError):
        parse(text)


@given(st.text(max_size=300))
def test_no_text_is_a_surprise(text: str) -> None:
    try:
        parse(text)
    except ProbeError:
        return


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.floats(0.1, 100))
def test_percentile_is_a_value_that_enough_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values) - 1e-6
    assert sum(value < found for value in values) * 100 <= percent * len(values)


def test_echoes_after_the_window_do_not_count() -> None:
    """ping fell behind: from the third second on nothing is loaded any more."""
    echoes = within(parse(output({1: 500.0, 2: 9.0, 3: 8.0, 4: 0.1, 5: 0.1}, 5)), 2.6)
    found = {s.metric: s.value for s in samples("m", echoes) if s.kind == "summary"}
    assert found == {"rtt": 8.5, "rtt_min": 8.0, "rtt_p99": 9.0, "ping_loss": 0.0}


def test_what_was_lost_within_the_window_is_lost() -> None:
    echoes = within(parse(output({1: 1.0, 2: 9.0, 4: 9.0, 9: 0.1}, 9)), 4.0)
    found = {s.metric: s.value for s in samples("m", echoes) if s.kind == "summary"}
    assert found["ping_loss"] == pytest.approx(100 / 3)


def test_echoes_sent_after_the_window_are_not_lost() -> None:
    """All replies came within it; the other echoes were sent after it, to a host that was gone."""
    echoes = within(parse(output({1: 1.0, 2: 9.0, 3: 9.0}, 100)), 4.0)
    assert (echoes.sent, len(echoes.replies)) == (4, 3)


def test_the_slowest_echoes_of_the_window_count() -> None:
    """The last one was sent within it, and answered after it."""
    echoes = within(parse(output({1: 1.0, 2: 1.0, 3: 1.0, 5: 1400.0}, 5)), 3.0)
    assert [echo.rtt_ms for echo in echoes.replies] == [1.0, 1.0, 1.0, 1400.0]


def test_a_window_that_holds_all_changes_nothing() -> None:
    echoes = parse(output({1: 1.0, 3: 1.0}, 9))
    assert within(echoes, 1000.0) == echoes == within(echoes, None)
    nothing = parse(output({}, 3))
    assert within(nothing, 1.0) == nothing


def test_many_echoes_have_a_thousandth() -> None:
    few, many = ({at: float(at) for at in range(1, n + 2)} for n in (999, 1000))
    assert "rtt_p999" not in summary(output(few, 1000))
    assert summary(output(many, 1001))["rtt_p999"] == 1000.0


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_the_median_is_finer_than_the_digits_that_ping_prints(digits: int) -> None:
    step = 10.0**-digits
    exact = [(6 + i / 400) * step for i in range(401)]
    shift = 10.0 ** (2 - digits) if digits < 3 else 0.0
    seen = [round(shift + each, digits) for each in exact]
    assert median(seen) == pytest.approx(shift + 6.5 * step, abs=0.01 * step)


def test_middle_values_that_differ_are_averaged() -> None:
    assert median([0.4, 0.1, 0.2, 0.3]) == pytest.approx(0.25)
    assert median([0.3, 0.1, 0.2]) == pytest.approx(0.2)
    assert median([0.3]) == pytest.approx(0.3)
