"""The lab of the benches: real namespaces and links, and nothing left of them however a bench ends.

   hawserbench-PID-1-a                hawserbench-PID-1-b
  +--------------------+             +--------------------+
  | wan0 198.18.0.1/24 |-------------| wan0 198.18.0.2/24 |
  +--------------------+             +--------------------+

PID is pytest's own for labs made here, and that of `python benches/tunnel.py` for whole benches.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.bench import SampleError
from harness.lab import Daemon, Lab, Namespace, sweep, until
from harness.traffic import echo, tcp
from hawser.node.netns import cgroup
from lab import ROOT

pytestmark = pytest.mark.root


def namespaces(pid: int) -> list[str]:
    return [path.name for path in Path("/run/netns").glob(f"hawserbench-{pid}-*")]


def processes_in(name: str) -> list[str]:
    command = ["ip", "netns", "pids", name]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


@contextmanager
def bench(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The tunnel bench, on the plain link alone."""
    # A shell may have started us in the background, where Ctrl-C is ignored.
    python = ["env", "--default-signal=INT", sys.executable]
    process = subprocess.Popen(
        [*python, "benches/tunnel.py", "--only", "bare veth", "--patience", "0", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        sweep()


def wait_for_iperf(pid: int) -> list[str]:
    """Wait until a transfer runs; the ids of its processes."""
    running: list[str] = []

    def transferring() -> bool:
        running[:] = [p for name in namespaces(pid) for p in processes_in(name)]
        return len(running) >= 2

    until(transferring, "a transfer runs", timeout=120)
    return running


def test_traffic_crosses_the_link() -> None:
    with Lab() as lab:
        a, b = lab.pair()
        times = echo(a, "198.18.0.2", count=5)
        moved = tcp(a, b, "198.18.0.2", streams=2, seconds=1, daemons=[])
    assert len(times) == 5
    assert 0 < min(times) < 100_000
    assert moved.goodput > 0.1
    assert moved.machine_cpu > 0
    assert (moved.daemon_cpu, moved.memory) == (0, 0)
    assert not namespaces(os.getpid())


def test_an_address_that_is_not_there_is_a_failed_sample() -> None:
    with Lab() as lab:
        a, b = lab.pair()
        with pytest.raises(SampleError, match="ping failed"):
            echo(a, "198.18.0.3", count=2)
        with pytest.raises(SampleError, match="iperf3"):
            tcp(a, b, "198.18.0.3", streams=1, seconds=1, daemons=[])


def test_a_daemon_that_ignores_sigterm_is_ended_when_the_block_fails() -> None:
    started: list[Daemon] = []

    def failing() -> None:
        with Lab() as lab:
            started.append(stubborn(lab.namespace("a")))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert not started[0].running()
    assert not namespaces(os.getpid())


@pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here")
def test_a_daemon_is_held_to_its_share() -> None:
    with Lab() as lab:
        daemon = lab.namespace("a").start([sys.executable, "-c", "while True: pass"])
        lab.hold(daemon, 0.2)
        (group,) = cgroup.names(f"hawserbench-{os.getpid()}-")
        until(lambda: throttled(group) >= 10, "it has to wait")
        assert cgroup.processes(group) == (daemon.pid,)
    assert cgroup.names(f"hawserbench-{os.getpid()}-") == ()


def throttled(group: str) -> int:
    usage = cgroup.usage(group)
    return usage.throttled if usage else 0


@pytest.mark.skipif(not cgroup.available(), reason="no control groups of processor time here")
def test_the_next_bench_removes_groups_of_one_that_was_killed() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    group = f"hawserbench-{gone.pid}-1-0"
    cgroup.create(group, 0.5)
    sweep()
    assert cgroup.names(group) == ()


def stubborn(namespace: Namespace) -> Daemon:
    daemon = namespace.start(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])
    until(lambda: daemon.said() == "ready", "the daemon ignores SIGTERM")
    return daemon


def test_a_run_writes_its_result_and_leaves_nothing() -> None:
    with bench("--rounds", "1", "--seconds", "1") as process:
        said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert "bare veth" in said
    assert not namespaces(process.pid)
    written = json.loads((ROOT / "target/bench/tunnel-partial.json").read_text())
    medians = {row["metric"]: row["median"] for row in written["rows"]}
    assert medians.keys() == {"goodput_1", "goodput_4", "machine_cpu", "rtt"}
    assert all(value > 0 for value in medians.values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(number: signal.Signals) -> None:
    with bench("--seconds", "30") as process:
        running = wait_for_iperf(process.pid)
        process.send_signal(number)
        said, _ = process.communicate(timeout=240)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert not namespaces(process.pid)
    assert not [pid for pid in running if Path(f"/proc/{pid}").exists()]


def test_killed_its_processes_die_and_the_next_bench_removes_the_rest() -> None:
    with bench("--seconds", "30") as process:
        running = wait_for_iperf(process.pid)
        process.kill()
        process.wait()
        until(lambda: not any(Path(f"/proc/{p}").exists() for p in running), "they die", 60)
        left = namespaces(process.pid)
        assert left
        assert set(left) <= set(sweep())
    assert not namespaces(process.pid)


@pytest.mark.parametrize(
    "arguments", [["--only", "carrier pigeon"], ["--rounds", "0"], ["--seconds", "long"]]
)
def test_bad_input_is_refused_at_once(arguments: list[str]) -> None:
    command = [sys.executable, "benches/tunnel.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""  # before anything was measured
    assert arguments[0] in done.stderr
