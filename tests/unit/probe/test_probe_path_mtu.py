"""What ping says of packets that are too large."""

from __future__ import annotations

import pytest

from hawser.probe.base import ProbeError
from hawser.probe.path_mtu import Answer, parse

HEAD = "PING 10.2.0.2 (10.2.0.2) from 10.1.0.2 : 1472(1500) bytes of data.\n"


def output(lines: str, received: int) -> str:
    return f"{HEAD}{lines}\n--- 10.2.0.2 ping statistics ---\n3 packets transmitted, {received} received, 0% packet loss, time 600ms\n"  # noqa: E501


def test_a_reply_says_that_the_size_passes() -> None:
    line = "1480 bytes from 10.2.0.2: icmp_seq=1 ttl=62 time=1.0 ms\n"
    assert parse(output(line, 3)) == Answer(answered=True, told=None)


def test_a_router_tells_what_passes() -> None:
    lines = (
        "From 10.1.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1326)\n"
        "ping: local error: message too long, mtu=1326\n"
    )
    assert parse(output(lines, 0)) == Answer(answered=False, told=1326)


def test_silence_tells_nothing() -> None:
    assert parse(output("", 0)) == Answer(answered=False, told=None)


def test_output_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ProbeError, match="no summary"):
        parse(HEAD)
