"""Whether connections spoke MPTCP, from the kernel's counters."""

from __future__ import annotations

import pytest

from hawser.probe import mptcp, nstat
from hawser.probe.base import ProbeError


def test_what_was_counted_in_between() -> None:
    used = nstat.since({"MPCapableSYNACKRX": 3}, {"MPCapableSYNACKRX": 5, "MPJoinAckRx": 1})
    assert used == {"MPCapableSYNACKRX": 2, "MPJoinAckRx": 1}
    mptcp.require(used, connections=2)


def test_a_connection_that_fell_back_is_told() -> None:
    with pytest.raises(ProbeError, match="only 1 of 2 connections spoke MPTCP"):
        mptcp.require({"MPCapableSYNACKRX": 1}, connections=2)
