from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench import SampleError
from harness.traffic import echo_times, iperf_goodput


def test_goodput_is_what_was_received() -> None:
    end = {"sum_sent": {"bits_per_second": 3e9}, "sum_received": {"bits_per_second": 2.5e9}}
    assert iperf_goodput(json.dumps({"end": end})) == 2.5


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ('{"error": "unable to connect"}', "unable to connect"),
        ('{"end": {"sum_received": {"bits_per_second": 0}}}', "nothing was received"),
        ('{"end": {}}', "sum_received"),
        ("[]", "no report"),
        ("", "no report"),
    ],
)
def test_a_report_without_a_figure_is_a_failed_sample(output: str, message: str) -> None:
    with pytest.raises(SampleError, match=message):
        iperf_goodput(output)


@given(st.text())
def test_no_output_is_a_crash(output: str) -> None:
    with pytest.raises(SampleError):
        iperf_goodput(output)


def test_echo_times_in_microseconds() -> None:
    output = (
        "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.045 ms\n"
        "From 10.0.0.1 icmp_seq=2 Destination Host Unreachable\n"
        "64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=12 ms\n"
        "rtt min/avg/max/mdev = 0.045/6.022/12.000/5.977 ms\n"
    )
    assert echo_times(output) == pytest.approx([45, 12000])
