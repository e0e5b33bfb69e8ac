"""What needs no namespace of its own: settings' keys, processes, error texts."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from hawser.node import process
from hawser.node.base import NodeError, tail
from hawser.node.netns import sysctl


@pytest.mark.parametrize(
    "key",
    ["kernel.hostname", "net", "net.ipv4", "net..ipv4.x", "net.ipv4./etc.x", "vm.x.y", "net.a.b\n"],
)
def test_settings_beyond_the_namespace_are_refused(key: str) -> None:
    with pytest.raises(NodeError, match="expected one of a network namespace"):
        sysctl.path(key)


def test_settings_of_one_interface_are_told_apart() -> None:
    assert sysctl.of_interface("net.ipv4.conf.wan-1.rp_filter")
    assert sysctl.of_interface("net.ipv6.neigh.a.retrans_time_ms")
    for key in ("net.ipv4.conf.all.rp_filter", "net.ipv6.conf.default.x", "net.ipv4.ip_forward"):
        assert not sysctl.of_interface(key)


def test_usage_of_a_process_grows() -> None:
    busy = "data = bytearray(64 << 20)\nprint('up', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        first = process.usage(child.pid)
        time.sleep(0.3)
        second = process.usage(child.pid)
        child.kill()
    assert 0.02 < second.cpu_seconds - first.cpu_seconds < 0.5
    assert 64 << 20 < second.memory <= second.memory_peak < 256 << 20
    assert second.threads == 1


def test_a_process_that_has_ended_is_an_error_or_nothing() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(NodeError, match=f"process {child.pid} has ended"):
        process.usage(child.pid)
    assert process.started(child.pid) is None
    assert process.children(child.pid) == ()


def test_a_zombie_has_ended() -> None:
    child = subprocess.Popen(["true"])
    time.sleep(0.1)
    assert process.started(child.pid) is None
    child.wait()


def test_start_and_children() -> None:
    mine = process.started(os.getpid())
    assert mine is not None
    with subprocess.Popen(["sh", "-c", "sleep 9 & echo up; wait"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        theirs = process.started(child.pid)
        assert theirs is not None
        assert theirs >= mine
        (sleeping,) = process.children(child.pid)
        subprocess.run(["kill", str(sleeping)], check=True)


def test_tail_keeps_the_last_lines() -> None:
    assert tail("") == ""
    assert tail("a\nb\n") == "\n  a\n  b"
    assert tail("\n".join(map(str, range(20)))).startswith("\n  12\n")
