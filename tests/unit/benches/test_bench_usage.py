from __future__ import annotations

import os
import time

import pytest

from harness.usage import (
    busy_share,
    cpu_time,
    machine_seconds,
    memory_mib,
    niced_share,
    process_seconds,
    status_mib,
)

#              user nice system idle iowait irq softirq steal guest guest_nice
BEFORE = "cpu  100  50   200    1000 10     5   20      3     0     0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
AFTER = "cpu  200  90   260    1100 10     5   40      3     0     0\n"


def test_machine_time_leaves_out_idle_niced_and_stolen() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert machine_seconds(BEFORE) == (100 + 200 + 5 + 20) / ticks


def test_busy_share_counts_everybody() -> None:
    assert busy_share(BEFORE, AFTER) == pytest.approx((100 + 40 + 60 + 20) / 320)
    assert busy_share(BEFORE, BEFORE) == 1


def test_niced_share_counts_others() -> None:
    assert niced_share(BEFORE, AFTER) == pytest.approx(40 / 320)
    assert niced_share(BEFORE, BEFORE) == 0


def test_process_time_with_a_name_that_looks_like_fields() -> None:
    stat = "7 (a) 9 (b) S 1 7 7 0 -1 0 1 2 3 4 250 150 8 9 20 0 5 0 0"
    assert process_seconds(stat) == 400 / os.sysconf("SC_CLK_TCK")


def test_memory_in_mib() -> None:
    assert status_mib("Name:\tx\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n", "VmRSS") == 2
    with pytest.raises(ValueError, match="VmRSS"):
        status_mib("Name:\tx\n", "VmRSS")


def test_this_process_uses_what_it_uses() -> None:
    before = cpu_time([os.getpid()])
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    used = cpu_time([os.getpid()]) - before
    assert 0.05 < used.processes < 0.5
    assert 1 < memory_mib(os.getpid()) <= memory_mib(os.getpid(), peak=True) < 4096
