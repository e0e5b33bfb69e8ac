"""What `hawser doctor` says of a self-test, and that the test is made."""

from __future__ import annotations

import pytest

from hawser.cli.doctor import verdicts
from hawser.probe.quiet import Load
from hawser.probe.wakeup import Lateness, SelfTest, self_test

QUIET = Load(cores=2, others=0.1, steal=0, cpu_wait=0.01, memory_wait=0)
COMPILING = Load(cores=2, others=1.9, steal=0, cpu_wait=0.9, memory_wait=0)
PROMPT = Lateness("realtime", 50, 130, 1600)
USUAL = Lateness("ordinary", 40, 600, 6000)


def found(test: SelfTest) -> dict[str, bool]:
    return {one.name.removeprefix("measure-"): one.found for one in verdicts(test)}


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        (SelfTest(PROMPT, USUAL, QUIET), (True, True, True)),
        (SelfTest(Lateness("realtime", 50, 1001, 9000), USUAL, QUIET), (False, True, True)),
        (SelfTest(PROMPT, Lateness("ordinary", 40, 3900, 9000), QUIET), (True, False, True)),
        (SelfTest(PROMPT, USUAL, COMPILING), (True, True, False)),
    ],
)
def test_what_may_be_measured(test: SelfTest, wanted: tuple[bool, bool, bool]) -> None:
    names = ("emulated-paths", "percentiles", "throughput")
    assert found(test) == dict(zip(names, wanted, strict=True))


def test_each_refusal_says_what_happens_and_what_helps() -> None:
    late = Lateness("ordinary", 2000, 5200, 30_000)
    emulated, percentiles, throughput = verdicts(SelfTest(late, late, COMPILING))
    assert emulated.detail == (
        "real-time programs wake up 2.00 ms late (median), 5.20 ms (99 %), 30.0 ms (at most)"
        " (real-time priority was refused)"
    )
    assert percentiles.instead == "99th percentiles include 5.2 ms of waiting to run"
    assert throughput.detail.startswith("others use 1.9 of 2 processors")
    assert all(one.instead and one.how for one in (emulated, percentiles, throughput))


def test_the_self_test_wakes_up_and_looks_at_the_machine() -> None:
    test = self_test(seconds=0.2)
    for late in (test.realtime, test.ordinary):
        assert 0 < late.p50 <= late.p99 <= late.max
    assert test.ordinary.scheduling == "ordinary"
    assert test.load.cores >= 1
