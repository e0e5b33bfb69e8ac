from __future__ import annotations

import fcntl
import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console

from harness.bench import Bench, Measure, Metric, Peer, SampleError
from harness.run import Patience, run
from harness.samples import Samples


def bench(**cases: Measure) -> Bench:
    peers = [Peer(name, cases={"idle": measure}) for name, measure in cases.items()]
    metrics = (Metric("rtt", "us", "RTT"),)
    return Bench("x", "X", "", metrics, peers, checks=lambda _samples: [])


def always_quiet() -> Patience:
    stat = iter(f"cpu 0 0 0 {number} 0 0 0 0 0 0" for number in range(1000))
    return Patience(0, read=lambda: next(stat), sleep=lambda _seconds: None)


def test_a_sample_that_fails_is_noted_and_the_others_are_taken() -> None:
    calls = 0

    def flaky() -> Mapping[str, float]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise SampleError("no answer")
        return {"rtt": calls}

    written = io.StringIO()
    outcome = run(
        bench(flaky=flaky, steady=lambda: {"rtt": 7.0}),
        Console(file=written),
        rounds=3,
        seed=1,
        patience=always_quiet(),
    )

    assert [(f.peer, f.round, f.reason) for f in outcome.failures] == [("flaky", 1, "no answer")]
    assert outcome.samples.of("flaky", "rtt") == {0: 1, 2: 3}
    assert outcome.samples.of("steady", "rtt") == {0: 7, 1: 7, 2: 7}
    assert (outcome.rounds, outcome.taken, outcome.disturbed) == (3, 6, 0)
    assert "round 2/3: flaky, idle: failed: no answer" in written.getvalue()


def test_a_mistake_in_a_bench_is_not_taken_for_a_failed_sample() -> None:
    def broken() -> Mapping[str, float]:
        raise KeyError("rtt")

    with pytest.raises(KeyError):
        run(
            bench(broken=broken),
            Console(file=io.StringIO()),
            rounds=1,
            seed=1,
            patience=always_quiet(),
        )


def test_derived_metrics_join_the_samples() -> None:
    def derive(samples: Samples) -> None:
        samples.add("a", 0, {"added": samples.of("a", "rtt")[0] - 1})

    one = bench(a=lambda: {"rtt": 5.0})
    derived = Bench(one.name, one.title, "", one.metrics, one.peers, one.checks, derive)
    outcome = run(derived, Console(file=io.StringIO()), rounds=1, seed=1, patience=always_quiet())
    assert outcome.samples.of("a", "added") == {0: 4}


def test_the_lock_is_held_during_a_sample_and_given_back(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    def locked() -> bool:
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    outcome = run(
        bench(a=lambda: {"rtt": float(locked())}),
        Console(file=io.StringIO()),
        rounds=1,
        seed=1,
        patience=always_quiet(),
        lock=lock,
    )
    assert outcome.samples.of("a", "rtt") == {0: 1.0}
    assert not locked()


def test_patience_waits_for_quiet() -> None:
    slept = list[float]()
    readings = iter([(0, 0), (90, 10), (90, 10), (91, 100)])

    def read() -> str:
        busy, idle = next(readings)
        return f"cpu {busy} 0 0 {idle} 0 0 0 0 0 0"

    assert Patience(10, read=read, sleep=slept.append).quiet()
    assert len(slept) == 2


def test_patience_ends_with_its_budget() -> None:
    busy = iter(range(1000))
    patience = Patience(
        1, read=lambda: f"cpu {next(busy)} 0 0 0 0 0 0 0 0 0", sleep=lambda _seconds: None
    )
    assert not patience.quiet()
    spent = next(busy)
    assert not patience.quiet()
    assert next(busy) - spent == 3  # one look, no waiting
